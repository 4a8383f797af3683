"""Fine-tuning a pretrained encoder from a folder: by command, saved, loaded, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from families import SMALL
from vnait import InputError, Run, TextClassifier, compare
from vnait.cli import main
from vnait.data import Table
from vnait.data import vocabulary as vocabulary
from vnait.results import drawing
from vnait.results.explanation import explain, export
from vnait.results.explanation.attribution import TOLERANCE
from vnait.train.base import Base, groups
from vnait.train.fitting import fit
from vnait.train.models import new_model
from vnait.train.predict import load

WORDS = ["good", "bad", "film", "plot", "the", "was", "a", "very"]


def saved_base(path: Path) -> Path:
    """A tiny BERT with a tokenizer, as from_pretrained reads it."""
    words = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    )
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(**SMALL)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return saved_base(tmp_path_factory.mktemp("pretrained") / "bert")


@pytest.fixture
def data(tmp_path) -> Path:
    """The label is the first word."""
    path = tmp_path / "data.csv"
    rows = [f"{first} {a} {b},{first}" for first in ("good", "bad") for a in WORDS for b in ("film", "plot")]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return path


TABLE = Table(
    texts=[f"{first} {a} film" for first in ("good", "bad") for a in WORDS],
    labels=["good"] * 8 + ["bad"] * 8,
    name="table",
    dropped=0,
)


def run(base: Path, **settings: object) -> Run:
    return Run(base=str(base), **{"steps": 8, "max_length": 32, "learning_rate": 3e-3, **settings})


@pytest.mark.parametrize("method", ["vnait", "own", "alibi", "rope"])
def test_a_base_is_tuned_saved_and_loaded(folder, tmp_path, method):
    fitted = fit(run(folder, method=method, steps=60), TABLE, Base.load(str(folder)), test=TABLE)
    assert fitted.record.metrics["accuracy"] >= 0.9
    assert fitted.record.method == method and fitted.record.run["base"] == str(folder)
    output = fitted.probabilities(TABLE.texts)
    fitted.save(tmp_path / "model")
    assert (tmp_path / "model" / "adapter").is_dir() == (method != "own")
    again = load(tmp_path / "model")
    assert again.classes == ["bad", "good"] and again.max_length == 32
    assert abs(again.probabilities(TABLE.texts) - output).max() <= 1e-6
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model" / "base")
    assert not any("vnait" in name for name in plain.state_dict())
    # the model itself went on unharmed, and replaces an older one of its kind
    fitted.save(tmp_path / "model")
    assert abs(fitted.probabilities(TABLE.texts) - output).max() == 0


def test_with_a_method_it_reads_further_than_the_base_was_born_for(folder):
    long = "good " * 30
    fitted = fit(run(folder, method="vnait", steps=4, max_length=200), TABLE, Base.load(str(folder)))
    cut = fit(run(folder, method="vnait", steps=4, max_length=20), TABLE, Base.load(str(folder)))
    assert abs(fitted.probabilities([long]) - fitted.probabilities([long + "bad " * 100])).max() > 1e-7
    assert abs(cut.probabilities([long]) - cut.probabilities([long + "bad " * 100])).max() == 0
    with pytest.raises(
        InputError, match=r"max_length is 200, and .* reads 40 tokens with its own positions; lower it"
    ):
        fit(run(folder, method="own", max_length=200), TABLE, Base.load(str(folder)))


def test_a_table_whose_first_rows_are_paddings_reads_fewer_tokens(folder, tmp_path):
    small = {**SMALL, "max_position_embeddings": 34, "pad_token_id": 1}
    transformers.RobertaModel(transformers.RobertaConfig(**small)).save_pretrained(tmp_path)
    words = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate(["[UNK]", "[PAD]", *WORDS])}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(tmp_path)
    base = Base.load(str(tmp_path))
    settings = run(tmp_path, method="own", steps=2)
    assert fit(replace(settings, max_length=32), TABLE, base).probabilities(["good " * 40]).shape == (1, 2)
    with pytest.raises(InputError, match=r"max_length is 33, and .* reads 32 tokens with its own positions"):
        fit(replace(settings, max_length=33), TABLE, base)


def test_a_text_without_a_token_is_one_unknown_word(folder):
    base = Base.load(str(folder))
    assert base.encode(["good", " ", ""], max_length=9) == [base.encode(["good"], max_length=9)[0], [1], [1]]
    assert base.encode([], max_length=9) == []
    fitted = fit(run(folder, method="own", steps=2), TABLE, base)
    assert fitted.probabilities(["good", " "]).shape == (2, 2) and fitted.probabilities([]).shape == (0, 2)


def test_a_base_and_words_that_do_not_belong_together_are_refused(folder):
    words = vocabulary.learn(TABLE.texts, dim=8)
    for given, settings in ((words, run(folder)), (Base.load(str(folder)), Run())):
        with pytest.raises(
            InputError,
            match=f"with a {type(given).__name__}; a run with a base needs a Base",
        ):
            fit(settings, TABLE, given)
    with pytest.raises(InputError, match="the run has a base: give base="):
        compare(TABLE, run=run(folder), out="nowhere")


def test_a_length_that_holds_no_word_is_refused():
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "[CLS]": 1, "good": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    base = Base("", transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"))
    assert base.encode(["good good"], max_length=2) == [[1, 2]]
    with pytest.raises(InputError, match="max_length is 1, of which the base's special tokens take 1"):
        base.encode(["good"], max_length=1)


def test_what_was_attached_learns_faster_and_matrices_decay(folder):
    settings = run(folder, method="vnait", learning_rate=1e-3)
    model = Base.load(str(folder)).new_model(settings, ["a", "b"], [3])
    found = {(group["lr"], group["weight_decay"]): group["params"] for group in groups(model, settings)}
    assert set(found) == {(1e-3, 0.01), (1e-3, 0.0), (1e-2, 0.01), (1e-2, 0.0)}
    assert any(weight is model.bert.vnait.gate for weight in found[1e-2, 0.0])
    assert sum(map(len, found.values())) == sum(weight.requires_grad for weight in model.parameters())


def test_the_command(folder, data, tmp_path, capsys):
    out = tmp_path / "model"
    arguments = ["train", str(data), "--base", str(folder), "--out", str(out), "--steps", "4", "--quiet"]
    main([*arguments, "--json"])
    record = json.loads(capsys.readouterr().out)["record"]
    assert record["method"] == "vnait" and record["run"]["learning_rate"] == 1e-4
    main(["predict", str(out), str(data), "--quiet"])
    assert len(capsys.readouterr().out.splitlines()) == 33
    main(["explain", str(out), "good film"])
    assert re.search(r"good +[\d.]+ .*\n.*film .*\n(.*\n)*method +vnait: ", capsys.readouterr().out)
    for command, message in {
        (*arguments, "--tokenization", "characters"): "leave --tokenization out.",
        (*arguments, "--bag", "0", "--vector-words", "9"): "leave --vector-words, --bag out.",
        (
            "train",
            str(data),
            "--base",
            "./nowhere",
            "--out",
            str(out),
        ): "./nowhere is not a folder; give one that",
        (
            "train",
            str(data),
            "--base",
            str(tmp_path),
            "--out",
            str(out),
        ): "is not a pretrained model with a tokenizer",
        ("train", str(data), "--method", "own", "--out", str(out)): "method 'own' is a base's own positions",
    }.items():
        with pytest.raises(SystemExit, match="2"):
            main(list(command))
        assert message in capsys.readouterr().err
    again = TextClassifier.load(out)
    assert set(again.predict(["good film", "bad film"])) <= set(again.classes_)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory, folder) -> Path:
    """A tiny Llama with the tokenizer of the tiny BERT."""
    path = tmp_path_factory.mktemp("pretrained") / "llama"
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.LlamaConfig(vocab_size=len(WORDS) + 2, pad_token_id=0, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(path)
    return path


def test_a_decoder_gets_the_causal_member_unless_a_method_is_named(decoder, folder, data, tmp_path, capsys):
    command = ["train", str(data), "--base", str(decoder), "--out", str(tmp_path / "model"), "--steps", "2"]
    main([*command, "--json"])
    output = capsys.readouterr()
    assert json.loads(output.out)["record"]["method"] == "vnait-causal"
    assert "reads from left to right, so its method is vnait-causal" in output.err
    assert Base.load(folder).default_method == "vnait"


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")  # of peft itself
@pytest.mark.parametrize(
    ("kind", "method"), [("decoder", "vnait-causal"), ("decoder", "own"), ("folder", "vnait")]
)
def test_lora_saves_adapters_that_another_load_reads_alike(kind, method, request, data, tmp_path, capsys):
    peft, base = pytest.importorskip("peft"), request.getfixturevalue(kind)
    before = {path.name: path.read_bytes() for path in base.iterdir()}
    command = ["train", str(data), "--base", str(base), "--out", str(tmp_path / "model"), "--steps", "40"]
    main([*command, "--lora", "--learning-rate", "1e-2", "--method", method, "--quiet"])
    assert {path.name: path.read_bytes() for path in base.iterdir()} == before
    assert not list((tmp_path / "model" / "base").glob("*.safetensors"))
    fitted = load(tmp_path / "model")
    output = fitted.probabilities(TABLE.texts)
    assert (output.argmax(-1) == [fitted.classes.index(label) for label in TABLE.labels]).mean() > 0.8
    fitted.save(tmp_path / "again")
    assert abs(load(tmp_path / "again").probabilities(TABLE.texts) - output).max() <= 1e-6
    if method == "own":  # the adapters are as peft has them
        plain = transformers.AutoModelForSequenceClassification.from_pretrained(base)
        served = peft.PeftModel.from_pretrained(plain, tmp_path / "model" / "lora").eval()
        ids = torch.tensor(fitted.ids(TABLE.texts[:1]))
        assert served(ids).logits.softmax(-1)[0].tolist() == pytest.approx(output[0].tolist(), abs=1e-5)


def test_adapters_of_a_changed_base_are_refused(folder, tmp_path):
    pytest.importorskip("peft")
    base = shutil.copytree(folder, tmp_path / "base")
    fit(run(base, method="own", lora=True, steps=2), TABLE, Base.load(base)).save(tmp_path / "model")
    (base / "notes.txt").write_text("changed")
    with pytest.raises(InputError, match=r"are for the base .*, which is gone or has changed; put it there"):
        load(tmp_path / "model")
    with pytest.raises(InputError, match="lora is for a pretrained base"):
        Run(lora=True)


def test_a_killed_training_with_lora_goes_on_to_the_same_weights(decoder, tmp_path):
    """Its checkpoint has the weights that learn, and no copy of the base."""
    pytest.importorskip("peft")
    settings, base = run(decoder, method="own", lora=True, steps=6, eval_every=2), Base.load(decoder)
    whole = fit(settings, TABLE, base)

    def stop(status):
        if status.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(settings, TABLE, base, checkpoints=tmp_path / "states", callback=stop)
    assert not list((tmp_path / "states").rglob("model.safetensors"))
    resumed = fit(settings, TABLE, base, checkpoints=tmp_path / "states")
    assert np.array_equal(resumed.probabilities(TABLE.texts), whole.probabilities(TABLE.texts))


@pytest.mark.parametrize(("method", "reason"), [("vnait", "take a causal method, such as vnait-causal")])
def test_a_method_that_cannot_work_is_refused_before_weights_are_loaded(decoder, method, reason, tmp_path):
    for path in decoder.iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=reason):
        fit(run(tmp_path, method=method), TABLE, Base.load(tmp_path))


@pytest.fixture(scope="module")
def tuned(folder):
    return {
        name: fit(run(folder, method=name, steps=2), TABLE, Base.load(str(folder)))
        for name in ("vnait", "own", "rope")
    }


def test_an_explanation_of_an_attached_method_is_what_the_model_reads(tuned, tmp_path):
    fitted, seen = tuned["vnait"], []
    model = fitted.model
    handle = model.bert.vnait.method.register_forward_hook(lambda part, args, output: seen.append(output))
    fitted.probabilities(["the good film was"])
    handle.remove()
    found = explain(fitted, "the good film was")
    assert found.tokens == ["the", "good", "film", "was"] and found.known == [True] * 4
    assert found.coordinates == pytest.approx(seen[0].at[0, :, 0].tolist())
    assert sum(found.gaps) == pytest.approx(found.coordinates[-1])
    probabilities = fitted.probabilities(["the good film was"])[0]
    assert found.probability == pytest.approx(probabilities.max())
    assert found.label == fitted.classes[probabilities.argmax()]
    assert found.attention.shape == (2, 2, 4, 4) and found.attention.sum(-1) == pytest.approx(1)
    assert np.shape(found.heads) == (2, 2) and model.config._attn_implementation == "sdpa"
    assert found.bag_contribution is None and found.shares == {} and list(found.logit) == ["Transformer"]
    assert any(found.attribution)
    assert sum(found.attribution) + found.constant == pytest.approx(found.logit["Transformer"], abs=TOLERANCE)
    json.dumps(found.facts())
    for name in ("one.png", "one.html"):
        export.save(found, tmp_path / name)
    page = (tmp_path / "one.html").read_text()
    assert "bag of words" not in page and "layer 2, head 2" in page


def test_a_drawing_shows_the_attached_method(tuned):
    example = drawing.trained(tuned["vnait"], texts=["the good film was"])
    attached = tuned["vnait"].model.bert.vnait
    assert example.method is attached.method and example.note == "in BertModel, trained"
    ids = tuned["vnait"].tokenizer(["the good film was"], return_tensors="pt")["input_ids"]
    vectors = tuned["vnait"].model.bert.embeddings.word_embeddings(ids)[0] / attached.scale
    assert torch.equal(example.texts[0], vectors)
    examples = drawing.from_options(["rope"], fitted=tuned["vnait"], texts=[], length=6, dim=None)
    assert len(drawing.titles(drawing.figure(examples))) == 2 and len(examples[0].texts[0]) == 6


def test_what_explain_and_draw_cannot_read_is_refused(tuned):
    for read, name in ((lambda one: explain(one, "good"), "explain"), (drawing.trained, "draw")):
        with pytest.raises(InputError, match=f"base with its own positions, which {name} can't read"):
            read(tuned["own"])
    with pytest.raises(InputError, match="rope enters the base's attention, which then gives no weights"):
        explain(tuned["rope"], "good")
    assert drawing.trained(tuned["rope"], texts=["good film"]).name == "rope"


def test_a_damaged_folder_is_refused(folder, tmp_path):
    fit(run(folder, method="own", steps=2), TABLE, Base.load(str(folder))).save(tmp_path / "model")
    (tmp_path / "model" / "tuned.json").write_text("{")
    with pytest.raises(InputError, match=r"model is damaged: .* Save the model again, or train it again"):
        load(tmp_path / "model")


def test_a_folder_with_damaged_weights_or_without_its_adapters_is_refused(folder, tmp_path):
    pytest.importorskip("peft")
    whole, adapted = (
        fit(run(folder, method="own", lora=lora, steps=2), TABLE, Base.load(str(folder)))
        for lora in (False, True)
    )
    whole.save(tmp_path / "whole")
    adapted.save(tmp_path / "adapted")
    weights = tmp_path / "whole" / "base" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    shutil.rmtree(tmp_path / "adapted" / "lora")
    for name, reason in (("whole", "."), ("adapted", "there is no folder lora")):
        with pytest.raises(InputError, match=f"{name} is damaged: .*{reason}.* Save the model again"):
            load(tmp_path / name)


def test_a_base_without_its_record_is_not_saved_again(folder, tmp_path):
    fit(run(folder, method="own", steps=2), TABLE, Base.load(str(folder))).save(tmp_path / "model")
    (tmp_path / "model" / "record.json").unlink()
    with pytest.raises(InputError, match=r"was not written: .* copy its folder instead"):
        load(tmp_path / "model").save(tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_model_of_vnait_is_no_base(data, tmp_path, capsys):
    model, out = tmp_path / "model", tmp_path / "tuned"
    main(["train", str(data), "--out", str(model), "--steps", "1", "--quiet"])
    with pytest.raises(SystemExit):
        main(["train", str(data), "--base", str(model), "--out", str(out), "--steps", "1"])
    assert (
        "is a model of vnait, trained from scratch; a base is a pretrained model" in capsys.readouterr().err
    )
    assert not out.exists()


def test_a_base_without_its_tokenizer_is_refused(tmp_path):
    """transformers would make one that reads every word as unknown."""
    transformers.BertModel(transformers.BertConfig(**SMALL)).save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match="bare is not a pretrained model with a tokenizer"):
        Base.load(tmp_path / "bare")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "own"}, "method 'own' is a base's own positions: give one with --base"),
        ({"method": "base:vnait", "base": "x"}, "is for comparisons; a training takes 'vnait'"),
    ],
)
def test_a_method_of_a_base_is_named_as_one(options, message):
    with pytest.raises(InputError, match=message):
        Run(**options)


def test_the_check_of_a_method_takes_none_of_the_draws_of_the_training(tmp_path, monkeypatch):
    base = str(saved_base(tmp_path / "bert"))
    run = Run(method="vnait", base=base)

    def start() -> dict[str, torch.Tensor]:
        return new_model(Base.load(base), run, ["a", "b"], [3]).state_dict()

    checked = start()
    monkeypatch.setattr(Base, "check", lambda self, run: None)
    unchecked = start()
    assert checked.keys() == unchecked.keys()
    assert all(torch.equal(value, unchecked[name]) for name, value in checked.items())
