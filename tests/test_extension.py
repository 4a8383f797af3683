"""`vnait extend`: tasks and advice by hand-made numbers; a tiny embedder from the command to a folder."""

import copy
import json
import re
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import vnait
from helpers import python
from vnait import InputError, cli
from vnait.pretrained.extend.decoder import LanguageModel
from vnait.pretrained.extend.embedder import Embedder
from vnait.pretrained.extend.hidden import hidden
from vnait.pretrained.extend.perplexity import Losses, Perplexities
from vnait.pretrained.extend.report import Report
from vnait.pretrained.extend.scoring import bm25, costs, ranked_first, similarities
from vnait.pretrained.extend.tasks import (
    FIRST,
    GENERATED,
    GROUND,
    LAST,
    NEEDLES,
    Result,
    Task,
    from_documents,
)
from vnait.pretrained.extend.variants import DECODER_VARIANTS, VARIANTS, variants_of
from vnait.shared.statistics import proportion

TINY = Path(__file__).parent / "golden" / "format_9" / "tiny_bert"  # its table has 32 rows


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(TINY)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_texts_have_their_passage_at_its_depth(name, tokenizer):
    task = GENERATED[name](tokenizer, 200, 10)
    assert task == GENERATED[name](tokenizer, 200, 10)
    assert len(set(task.queries)) == 10 and sorted(task.depths) == [(i + 0.5) / 10 for i in range(10)]
    for text, query, depth in zip(task.texts, task.queries, task.depths, strict=True):
        assert 190 <= len(tokenizer(text)["input_ids"]) <= 200
        name_or_fact = query.removeprefix("What is the passkey for ").rstrip("?")
        passage = {question: fact for fact, question in NEEDLES}.get(query, f"The passkey for {name_or_fact}")
        place = text.index(passage)
        assert abs(place / (len(text) - len(passage)) - depth) < 0.15


def test_needles_are_asked_for_in_other_words():
    """Words alone must not be enough, or the task would be no different from the passkey."""
    facts, questions = zip(*NEEDLES, strict=True)
    assert len(set(facts)) == len(set(questions)) == 30
    assert ranked_first(bm25(questions, facts)).mean() < 0.5


def test_own_documents_are_grouped_by_doubled_limits(tokenizer):
    texts = ["dull " * 6, "dull " * 7, "dull " * 15]  # with two special tokens: 8, 9, 17
    assert from_documents(tokenizer, texts, limit=8, labels="aab").lengths == (8, 16, 32)


def test_bm25_is_its_formula():
    scores = bm25(["red fox"], ["red red hat", "fox", "hat"])
    idf, mean = np.log1p((3 - 1 + 0.5) / (1 + 0.5)), 5 / 3
    wanted = [
        idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / mean)),
        idf * 2.5 / (1 + 1.5 * (0.25 + 0.75 / mean)),
        0,
    ]
    np.testing.assert_allclose(scores, [wanted])


def test_the_best_window_decides_and_ties_are_not_found():
    windows = [np.eye(2, dtype=np.float32), np.array([[0.0, 1.0]], dtype=np.float32)]
    scores = similarities(np.eye(2, dtype=np.float32), windows)
    assert scores.tolist() == [[1, 0], [1, 1]]
    assert ranked_first(scores).tolist() == [True, False]


def test_a_share_has_wilsons_interval():
    """Of 0 in 10: 0 to z^2 / (n + z^2), which a normal interval would call 0."""
    low, high = proportion(0, 10)[1:]
    assert (low, high) == pytest.approx((0, 1.96**2 / (10 + 1.96**2)), abs=1e-4)


def test_memory_taken_meanwhile_is_seen():
    def hold() -> float:
        values = torch.ones(2**25)  # 128 MiB
        time.sleep(0.3)  # on a busy machine the watcher's thread may wait for its turn
        return values.sum().item()

    _, seconds, memory = costs(hold)
    assert 100 < memory < 400 and seconds > 0


def test_memory_of_a_gpu_leaves_out_what_was_there_before(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 3 * 2**20)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 5 * 2**20)
    assert costs(lambda: None)[2] == 2


def report_of(**right: list[int]) -> Report:
    """A report in which half of the documents are within the limit, where all is right."""
    count = len(next(iter(right.values())))
    task = Task(
        name="needle",
        lengths=(16,) * count + (64,) * count,
        texts=("",) * 2 * count,
        queries=("",) * 2 * count,
        depths=tuple(np.linspace(0, 0.99, count)) * 2,
    )
    results = [
        Result(
            variant=variant,
            task=task,
            right=np.array([1] * count + past, dtype=bool),
            seconds=0.1,
            memory=5.0,
        )
        for variant, past in right.items()
    ]
    within = dict.fromkeys(set(right) - {"cut", "bm25"}, 0.0)
    return Report(model="one", limit=16, to=64, results=tuple(results), within=within)


HALF, MOST, FEW = [1, 0] * 10, [1] * 18 + [0] * 2, [1] * 4 + [0] * 16


@pytest.mark.parametrize(
    ("right", "variant"),
    [
        ({"cut": FEW, "windows-mean": MOST, "interpolated": HALF}, "windows-mean"),
        ({"cut": FEW, "windows-surest": MOST, "ntk": [1] * 20}, "windows-surest"),  # no more than chance
        ({"cut": FEW, "windows-mean": HALF, "yarn": [1] * 20, "ntk": MOST}, "yarn"),
        ({"cut": FEW, "windows-mean": HALF, "bm25": [1] * 20}, "windows-mean"),
        ({"yarn": MOST, "ntk": FEW}, "yarn"),
    ],
)
def test_windows_are_recommended_unless_an_extension_is_better_beyond_chance(right, variant):
    report = report_of(**right)
    assert report.advice.variant == report.document()["recommended"] == variant
    assert report.summary().startswith(f"Take {variant} ({VARIANTS[variant]})")


@pytest.mark.parametrize(("right", "undecided"), [([1] * 20, True), (FEW, False)])
def test_an_extension_that_is_ahead_by_chance_is_named_as_undecided(right, undecided):
    advice = report_of(**{"windows-surest": MOST, "ntk": right}).advice
    assert "the best extension, ntk, differs by" in advice.reason
    assert ("which 20 documents can't separate from chance" in advice.reason) == undecided


def test_words_that_find_more_are_mentioned():
    assert "bm25" in (report_of(cut=FEW, bm25=MOST).words or "")
    assert report_of(cut=MOST, bm25=MOST).words is None


def test_a_report_counts_by_length_and_by_depth_past_the_limit():
    report = report_of(cut=[1] * 10 + [0] * 10, ntk=[1] * 20)
    rows = report.document()["rows"]
    lengths = {(row["variant"], row["length"]): row["share"] for row in rows if "length" in row}
    assert lengths == {("cut", 16): 1, ("cut", 64): 0.5, ("ntk", 16): 1, ("ntk", 64): 1}
    depths = [row["share"] for row in rows if row["variant"] == "cut" and "depth" in row]
    assert depths == [1, 1, 0.5, 0, 0]
    text = report.text()
    assert "50 [30, 70]" in text and "40-60 %" in text and "100 ms, 5" in text and "ntk same bits" in text


def test_the_how_to_shows_the_tables_as_they_are_printed():
    """By their words; the figures on the page are of a pretrained model."""
    page = (Path(__file__).parent.parent / "docs" / "extend.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0]
    assert shown.startswith("Take windows-")
    variants = ("cut", "windows-mean", "windows-surest", "bm25", "interpolated")
    report = report_of(**dict.fromkeys(variants, HALF))
    within = [replace(result, task=replace(result.task, lengths=(16,) * 40)) for result in report.results]
    changes = dict.fromkeys(("windows-mean", "windows-surest", "interpolated"), 0.0)
    printed = replace(report, results=(*within, *report.results), within=changes).text()
    texts = (shown, printed.replace("needle", "passkey"))
    tables = [re.sub(r"\d+", "#", text.partition("\n\n")[2]).split() for text in texts]
    assert tables[0] == tables[1] != []


def test_variants_are_those_for_the_source_of_position():
    assert variants_of("table") == (
        *("cut", "windows-mean", "windows-surest", "bm25", "interpolated", "grouped", "log-n", "vnait"),
    )
    assert {"self-extended", "ntk", "yarn", "unchanged"} <= set(variants_of("rotation"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gone", "data.csv"], "there is no file data.csv"),
        (["gone", "--lengths", "many"], "--lengths has 'many'; give numbers"),
        (["gone", "--save", "yarn"], "needs a folder; give --out"),
        (["gone", "--out", str(Path(__file__).parent)], "a folder with other files in it"),
        (["gone.gguf", "--texts", "31"], "texts=31 is not possible; give 1 to 30 per length"),
        (["gone.gguf", "--texts", "0"], "texts=0 is not possible"),
    ],
)
def test_wrong_use_is_answered_before_a_model_is_loaded(arguments, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["extend", *arguments])
    assert stopped.value.code == 2 and words in capsys.readouterr().err


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    """A tiny SentenceTransformer, random."""
    library = pytest.importorskip("sentence_transformers")
    folder = tmp_path_factory.mktemp("tiny") / "model"
    BertModel.from_pretrained(TINY).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    tokenizer.model_max_length = 32
    tokenizer.save_pretrained(folder)
    return library.SentenceTransformer(str(folder))


def test_results_of_an_object_are_those_of_its_weights(embedder):
    same, changed = copy.deepcopy(embedder), copy.deepcopy(embedder)
    next(changed.parameters()).data[0] += 1
    prints = [Embedder.load(model, None, 64)[0].fingerprint for model in (embedder, same, changed)]
    assert prints[0] == prints[1] != prints[2]


def test_documents_without_words_are_a_message(embedder):
    documents = {"documents": ["...", "!!!"], "queries": ["?", "."]}
    report = vnait.extend(embedder, to=64, tasks=(), variants=("cut", "bm25"), **documents)
    assert "the documents can't be compared by words: " in dict(report.left_out)["bm25"]


def test_every_variant_reads_and_leaves_the_model_as_it_was(embedder):
    texts = ["a dull film", "a warm and funny film " * 30]
    before, kind = embedder.encode(texts), type(embedder[0].auto_model)
    labelled = {"documents": texts * 5, "labels": ["a", "b"] * 5}
    report = vnait.extend(embedder, to=256, tasks=("needle",), lengths=(64,), texts=5, **labelled)
    assert report.variants == variants_of("table") and report.tasks == ("needle", "labels")
    changes = dict(report.within)
    assert changes.pop("vnait") < 1e-6 and set(changes.values()) == {0.0}
    assert type(embedder[0].auto_model) is kind and embedder.max_seq_length == 32
    assert np.array_equal(embedder.encode(texts), before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"to": 32}, "to=32 is not past the limit"),
        ({"variants": ["yarn"]}, "yarn is not for this model, whose positions come from table"),
        ({"variants": ["window"]}, "Did you mean 'windows-mean'?"),
        ({"save": "windows-surest", "out": "new"}, "is not in a model, so it can't be saved"),
        ({"tasks": ["keys"]}, "there is no task keys; take passkey or needle"),
        ({"texts": 31}, "texts=31 is not possible; give 2 to 30"),
        ({"lengths": [4097]}, "a length of 4097 is more than to=4096"),
        ({"documents": ["a", "b"]}, "documents need a query each or a label each"),
        ({"tasks": []}, "there is nothing to try"),
        ({"tasks": [], "documents": ["a"], "queries": ["b"]}, "has 1 row; give two or more"),
        ({"tasks": [], "documents": ["a", "b"], "labels": ["b", "c"]}, "a label occurs once"),
    ],
)
def test_wrong_options_are_refused(options, words, embedder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        vnait.extend(embedder, **options)


def test_only_an_extended_model_is_replaced(embedder, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "chapter.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "null").mkdir()
    (tmp_path / "null" / "config.json").write_text("null", encoding="utf-8")
    embedder.save_pretrained(str(tmp_path / "base"))
    options = {
        "to": 128,
        "texts": 2,
        "lengths": (64,),
        "tasks": ("passkey",),
        "variants": ("cut", "interpolated"),
    }
    for folder in (notes, tmp_path / "null", tmp_path / "base"):
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        with pytest.raises(InputError, match="is not a model that extend has written"):
            vnait.extend(str(tmp_path / "base"), out=folder, **options)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    long = tmp_path / "long"
    for _ in range(2):
        assert vnait.extend(embedder, out=long, save="interpolated", **options).saved is not None
    with pytest.raises(InputError, match="is extended already; give the model that it was made from"):
        vnait.extend(str(long), out=long, **options)
    (long / "modules.json").unlink()  # as save_pretrained of an attached model leaves a folder
    with pytest.raises(InputError, match="is not a model that extend has written"):
        vnait.extend(embedder, out=long, **options)


def test_what_is_not_saved_or_compared_is_named(embedder, tmp_path):
    options = {"to": 128, "texts": 2, "variants": ("cut",)}
    report = vnait.extend(embedder, out=tmp_path / "new", lengths=(64,), tasks=("passkey",), **options)
    assert not (tmp_path / "new").exists() and "new was not written" in report.summary()
    short = {"tasks": (), "documents": ["a", "b", "c", "d"], "labels": ["x", "x", "y", "y"]}
    report = vnait.extend(embedder, **short, **options)
    assert "no document has more than 32 tokens" in report.summary()
    assert not report.text().endswith("by: .")
    with pytest.raises(InputError, match="limit=2 is too little: SentenceTransformer adds 2 special tokens"):
        vnait.extend(embedder, limit=2, **options)


def test_other_objects_are_refused(embedder, tmp_path):
    with pytest.raises(InputError, match="extend was given a BertModel; give a SentenceTransformer"):
        vnait.extend(embedder[0].auto_model)
    with pytest.raises(InputError, match="is not a folder; give one"):
        vnait.extend(tmp_path / "gone")


@pytest.mark.long
def test_the_command_saves_a_folder_that_a_new_process_reads_alike(embedder, tmp_path, capsys):
    """The long text by its own vector, the short one to the same bits as before."""
    embedder.save_pretrained(str(tmp_path / "base"))
    arguments = ["--to", "128", "--texts", "3", "--lengths", "64", "--variants", "cut,interpolated"]
    saving = ["--out", str(tmp_path / "long"), "--save", "interpolated", "--quiet"]
    cli.main(["extend", str(tmp_path / "base"), *arguments, *saving, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["saved"] == {"folder": str(tmp_path / "long"), "variant": "interpolated"}
    assert document["within_limit"] == {"interpolated": 0.0}
    code = (
        "import vnait, sys, numpy\nfrom sentence_transformers import SentenceTransformer\n"
        "model = SentenceTransformer(sys.argv[1])\nassert model.max_seq_length == 128\n"
        "numpy.save(sys.argv[2], model.encode(['a dull film', 'a warm and funny film ' * 20]))"
    )
    python(code, tmp_path / "long", tmp_path / "found.npy")
    again = np.load(tmp_path / "found.npy")
    short, cut = embedder.encode(["a dull film", "a warm and funny film " * 20])
    assert np.array_equal(again[0], short) and np.abs(again[1] - cut).max() > 1e-3


def language_model(folder: Path, kind: str) -> str:
    """A tiny random decoder of 64 places, with the tokenizer of the tiny BERT."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    torch.manual_seed(0)
    if kind == "llama":
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
        config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
        LlamaForCausalLM(config).save_pretrained(folder)
    else:
        config = GPT2Config(vocab_size=len(tokenizer), n_positions=64, n_embd=16, n_layer=1, n_head=2)
        GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


NEWS = ["a warm and funny film", "the dull film was dull"] * 40


def test_a_language_model_is_measured_by_what_reads_from_left_to_right(tmp_path):
    folder, seen = language_model(tmp_path / "llama", "llama"), []
    report = vnait.extend(
        folder, to=128, tasks=(), documents=NEWS, callback=lambda *status: seen.append(status)
    )
    unrotated = {"interpolated", "grouped"}
    assert set(report.variants) == set(DECODER_VARIANTS) - unrotated
    assert not report.left_out and len(seen) == len(report.rows) == 9
    losses = {(row.variant, row.length): row.losses for row in report.rows}
    assert losses["last", 64] == losses["last", 128]  # the same tokens, with the same tokens before them
    assert losses["vnait-causal", 128] == pytest.approx(losses["unchanged", 128], abs=1e-5)
    assert len({row for (_, length), row in losses.items() if length == 128}) >= 6
    assert report.document()["recommended"] == report.advice.variant
    assert "perplexity of the last 32 tokens of" in report.text()


def test_variants_that_cannot_work_are_left_out_with_their_reason(tmp_path):
    folder = language_model(tmp_path / "gpt2", "gpt2")
    report = vnait.extend(folder, to=128, tasks=(), documents=NEWS)
    assert set(report.left_out) == {"unchanged", "self-extended", "ntk", "yarn"}
    assert "yarn is not for GPT2Model, which has a position table" in report.text()
    assert report.variants == ("last", "bm25", "interpolated", "grouped", "log-n", "vnait-causal")


@pytest.fixture(scope="module")
def words_of_tasks():
    """A tokenizer that knows the words of the tasks; all others are one."""
    cut = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    texts = [GROUND, "The passkey for is Remember it 0123456789", *FIRST, *LAST, *chain(*NEEDLES)]
    words = dict.fromkeys(word for text in texts for word, _ in cut.pre_tokenize_str(text))
    vocabulary = {word: number for number, word in enumerate(["[UNK]", *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = cut
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")


class Copies(LanguageModel):
    """A model that goes on as the text did after the last three ids that it has read before."""

    def _logits(self, text, count):
        after = {tuple(text[place - 3 : place]): text[place] for place in range(3, len(text) - count)}
        ends = [tuple(text[place - 3 : place]) for place in range(len(text) - count, len(text))]
        next_ids = torch.tensor([int(after.get(end, 0)) for end in ends])
        return torch.nn.functional.one_hot(next_ids, len(self.tokenizer)).float()


@pytest.mark.parametrize("task", ["passkey", "needle"])
def test_hidden_passages_are_found_by_what_reads_them(task, tmp_path, words_of_tasks):
    loaded = LanguageModel.load(language_model(tmp_path / "llama", "llama"), 128)
    model = Copies("copies", loaded.model, words_of_tasks, loaded.limit)
    made, texts = hidden(task, model.tokenizer, 512, 5)
    assert all(400 < len(text.ids) <= 512 for text in texts)
    sentences = [passage.split(".")[0] for passage in made.passages]
    for text, sentence in zip(texts, sentences, strict=True):
        end = model.tokenizer.decode(text.ids[-text.opening - text.answer :])
        assert end.replace(" ", "") == sentence.replace(" ", "")
    assert model.finds("unchanged", texts).all()
    near = np.array([(1 - depth) * 512 < 128 - 40 for depth in made.depths])
    assert model.finds("last", texts)[near].all() and not model.finds("last", texts)[~near].any()
    assert model.finds("bm25", texts).sum() > near.sum()
    with pytest.raises(InputError, match="too short for a"):
        hidden(task, model.tokenizer, 16, 2)


def test_what_a_language_model_finds_is_reported_by_length_and_depth(tmp_path):
    folder = language_model(tmp_path / "llama", "llama")
    options = {"to": 256, "lengths": (64, 256), "texts": 2, "variants": ("last", "unchanged")}
    report = vnait.extend(folder, documents=NEWS, **options)
    results = {(result.task.name, result.variant, result.task.lengths[0]) for result in report.results}
    assert ("passkey", "unchanged", 256) in results and ("passkey", "unchanged", 64) not in results
    assert "passkey, by depth in texts past 64 tokens (%)" in report.text()
    assert {row["depth"] for row in report.document()["found"] if "depth" in row} == {(0.2, 0.4), (0.6, 0.8)}
    assert "of passages hidden in texts past the limit" in report.summary().lower()
    with pytest.raises(InputError, match="there is no task haystack"):
        vnait.extend(folder, documents=NEWS, tasks=("haystack",), **options)


def test_a_run_that_stops_loses_no_result_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    folder = language_model(tmp_path / "llama", "llama")
    (tmp_path / "news.csv").write_text("text\n" + "\n".join(NEWS) + "\n", encoding="utf-8")
    command = ["extend", folder, str(tmp_path / "news.csv"), "--to", "128", "--variants", "last,ntk,yarn"]
    command += ["--results", str(tmp_path / "results.jsonl"), "--quiet", "--json"]
    losses = LanguageModel.losses

    def stopping(model, variant, texts):
        if variant == "yarn":
            raise KeyboardInterrupt
        return losses(model, variant, texts)

    monkeypatch.setattr(LanguageModel, "losses", stopping)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        cli.main(command)
    with (tmp_path / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"key": "half')  # of a process that was killed while it wrote
    asked: list[str] = []
    monkeypatch.setattr(
        LanguageModel,
        "losses",
        lambda model, variant, texts: asked.append(variant) or losses(model, variant, texts),
    )
    for wanted in (["yarn"], ["yarn"]):  # once in all
        capsys.readouterr()
        cli.main(command)
        assert asked == wanted
        assert len(json.loads(capsys.readouterr().out)["rows"]) == 4


@pytest.mark.parametrize(
    ("losses", "variant", "words"),
    [
        ({"last": [2.0, 2.2], "unchanged": [3.0, 3.1], "ntk": [2.1, 2.2]}, "last", "the best extension, ntk"),
        ({"last": [2.0, 2.2], "unchanged": [3.0, 3.1], "ntk": [1.5, 1.6]}, "ntk", "against last"),
    ],
)
def test_an_extension_of_a_language_model_is_recommended_if_it_is_better_beyond_chance(
    losses, variant, words
):
    rows = tuple(Losses(name, 64, (*ends, *ends), 0.1, 1.0) for name, ends in losses.items())
    report = Perplexities(model="one", limit=32, targets=16, texts=1, rows=rows, left_out={})
    assert report.advice.variant == variant and words in report.advice.reason
    assert report.summary().startswith(f"Take {variant} ({DECODER_VARIANTS[variant]}): perplexity")


def test_an_extended_language_model_is_saved_and_read_by_the_auto_classes(tmp_path):
    folder = language_model(tmp_path / "llama", "llama")
    options = {"to": 128, "documents": NEWS, "variants": ("last",), "tasks": (), "out": tmp_path / "long"}
    assert vnait.extend(folder, **options).saved == (str(tmp_path / "long"), None)
    vnait.extend(folder, **options, save="yarn")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "long").eval()
    assert model.model.vnait_longer.reading == "yarn"
    with pytest.raises(InputError, match="a folder with other files in it"):
        vnait.extend(folder, **options, save="ntk")
    for wrong, words in (
        ({"save": "last"}, "last is of the model as it is"),
        ({"variants": ["nkt"]}, "Did you mean 'ntk'"),
        ({"to": 64}, "to=64 is not past the limit"),
        ({"documents": ["short"]}, "the documents have"),
        ({"queries": ["a"]}, "a language model is compared on documents alone"),
        ({"lengths": [20]}, "a length of 20 is not possible"),
    ):
        with pytest.raises(InputError, match=words):
            vnait.extend(folder, **{"to": 128, "documents": NEWS, **wrong})
