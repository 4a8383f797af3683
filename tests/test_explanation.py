"""Explanations: numbers are the model's own tensors, in English and Chinese; figures and pages show them."""

import json
import logging
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.cells import cell_len
from torch.nn import functional as F

import vnait
from conftest import same_picture
from vnait import cli
from vnait import data as text
from vnait.cli import terminal
from vnait.data import vocabulary as vocabulary
from vnait.model.encoder import Batch
from vnait.results import explanation
from vnait.results.explanation import display, explain, export, figure, simple
from vnait.results.explanation.attention import HEAD_KINDS
from vnait.results.explanation.attribution import TOLERANCE, Attribution
from vnait.shared.errors import InputError
from vnait.train import control, predict
from vnait.train import fitting as train
from vnait.train.baselines import fit_baseline

ENGLISH, CHINESE = "a warm and funny film", "我不喜欢这部电影"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def fitted(method="vnait", *, texts=("a warm and funny film", "dull from start to finish"), tokens="words"):
    table = text.Table(list(texts) * 10, ["good", "bad"] * 10, "made", 0)
    words = vocabulary.learn(table.texts, tokenization=tokens, seed=0)
    return train.fit(train.Run(method=method, steps=8, early_stopping=0, holdout=True), table, words)


@pytest.fixture(scope="module")
def english():
    return fitted()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, english):
    path = tmp_path_factory.mktemp("explanation") / "model"
    english.save(path)
    return path


def straight_through(model):
    return [part for part in model.modules() if hasattr(part, "true_gradient")]


def check_against_the_model(one, words):
    """Every number, from the model's own call, not from what explain computes."""
    found = explain(one, words)
    model = one.model.eval()
    ids = torch.tensor(text.encode(one.tokenizer, [words], max_length=model.config.max_length))
    with torch.no_grad():
        attentions = model(ids, output_attentions=True).attentions
        e, mask = model.model.semantics(ids, None, None)
        output = model.model.method(e, mask)
        block = model.model.encoder.blocks[0]
        scores = block.attention.scores(block.norm_attention(output.x), output.injection, mask)[0]
        whole = model(ids).logits[0]
        bag, model.bag = model.bag, type(model.bag)(model.config.vocab_size, len(one.classes))
        transformer = model(ids).logits[0]
        model.bag = bag
    assert len(found.tokens) == ids.shape[1] == len(found.coordinates)
    assert found.coordinates == output.at[0, :, 0].tolist()
    np.testing.assert_allclose(found.attention, torch.cat(attentions).numpy(), atol=1e-6)
    np.testing.assert_allclose(sum(found.terms.values()), scores.numpy(), atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(scores.softmax(-1), found.attention[0], atol=1e-6)
    label = one.classes.index(found.label)
    parts = [float(logits[label] - logits.mean()) for logits in (transformer, whole - transformer)]
    assert list(found.logit.values()) == pytest.approx(parts, abs=1e-5) and any(found.bag_contribution)
    bias = float(bag.bias[label] - bag.bias.mean())
    assert sum(found.bag_contribution) + bias == pytest.approx(found.logit["bag of words"], abs=1e-5)
    assert sum(found.attribution) + found.constant == pytest.approx(sum(parts), abs=TOLERANCE)
    assert any(found.attribution) and not any(part.true_gradient for part in straight_through(model))
    added = output.injection.added
    if added is None:
        assert found.similarity is None
        assert not any(np.any(found.terms[name]) for name in found.terms if "position" in name)
    else:
        np.testing.assert_allclose(found.similarity, F.cosine_similarity(e, added, dim=-1)[0], atol=1e-6)
        assert np.any(found.terms["position-position"])
    np.testing.assert_allclose(np.sum(list(found.shares.values()), axis=0), 1, atol=1e-5)
    assert {head.kind for layer in found.heads for head in layer} <= {*HEAD_KINDS, "first token"}
    assert np.shape(found.heads) == found.attention.shape[:2]
    return found


@pytest.mark.parametrize("tokens", ["jieba", "characters", "words"])
def test_chinese_numbers_are_the_models_own(tokens):
    one = fitted(texts=("我很喜欢这部电影", "我不喜欢电影"), tokens=tokens)
    found = check_against_the_model(one, CHINESE)
    assert "".join(found.tokens) == CHINESE


@pytest.mark.parametrize(
    "method",
    [
        "none",
        "sinusoidal",
        "rope",
        "alibi",
        "t5",
        "xpos",
        "cope",
        "scale-invariant",
        "vnait-context",
        "vnait-causal",
        "vnait-paper",
        "grid-rope",
        "lpi",
    ],
)
def test_numbers_are_the_models_own_wherever_position_enters(method):
    found = check_against_the_model(fitted(method), ENGLISH)
    slots = {
        "rotary": method in ("rope", "xpos", "scale-invariant", "vnait-context", "grid-rope", "lpi"),
        "bias": method in ("alibi", "t5", "cope", "scale-invariant", "vnait-causal"),
    }
    for name, there in slots.items():
        assert (max(found.shares[name]) > 0) == there
    learned = ("vnait-context", "vnait-causal", "vnait-paper", "lpi")
    assert found.learns_gaps == (method in learned)


def test_each_block_runs_once_beside_the_attribution(english, monkeypatch):
    monkeypatch.setattr(explanation, "attribute", lambda *_: Attribution([], 0.0))
    blocks, calls = english.model.model.encoder.blocks, []
    hooks = [block.register_forward_hook(lambda block, *_: calls.append(block)) for block in blocks]
    explain(english, ENGLISH)
    for hook in hooks:
        hook.remove()
    assert calls == list(blocks)


def test_english_numbers_are_the_models_own(english):
    found = check_against_the_model(english, ENGLISH)
    assert found.similarity is not None and found.tokens == ENGLISH.split()
    facts = json.loads(json.dumps(found.facts()))
    assert facts["heads"][0][0].keys() == {"kind", "distance"} and "attention" not in facts
    assert facts["shares"] == found.shares and facts["similarity"] == found.similarity


def test_unknown_words_add_nothing_and_the_constant_is_their_logit(english):
    found = explain(english, "zyx xyz")
    assert found.attribution == [0, 0]
    assert found.constant == pytest.approx(sum(found.logit.values()), abs=1e-6)
    known = explain(english, "warm xyz")
    assert known.attribution[0] != 0 and known.attribution[1] == 0
    model, ids = english.model, torch.tensor(english.ids(["warm xyz"]))
    with torch.no_grad():
        vectors = model.get_input_embeddings()(torch.full_like(ids, english.tokenizer.unk_token_id))
        encoded = model.model.read(Batch(inputs_embeds=vectors, attention_mask=torch.ones_like(ids)))
        logits = model.logits(encoded, ids)[0] - model.bag.each(ids, torch.ones_like(ids))[0].sum(0)
    expected = float(logits[english.classes.index(known.label)] - logits.mean())
    assert known.constant == pytest.approx(expected, abs=1e-6)


def test_another_class_can_be_explained(english, folder, capsys):
    found = explain(english, ENGLISH)
    (name,) = set(english.classes) - {found.answer}
    opposite = explain(english, ENGLISH, label=name)
    assert (found.label, opposite.label, opposite.answer) == (found.answer, name, found.answer)
    assert opposite.probability == pytest.approx(1 - found.probability)
    # Of two classes, one's distance from their mean is the other's.
    np.testing.assert_allclose(opposite.attribution, np.negative(found.attribution), atol=1e-5)
    np.testing.assert_allclose(opposite.bag_contribution, np.negative(found.bag_contribution), atol=1e-6)
    first = run(capsys, folder, ENGLISH, "--class", name).splitlines()[0]
    assert first == f"{name}  (probability {opposite.probability:.3f}; the answer is {found.answer})"
    with pytest.raises(InputError, match=r"no class 'god'; give one of bad, good. Did you mean 'good'\?"):
        explain(english, ENGLISH, label="god")


def test_a_gap_that_is_clipped_adds_what_it_adds(english):
    """Where a weight stays clipped, its straight-through gradient is not zero and the true one is."""
    gate = english.model.model.method.coordinates.coordinates.gate
    bias = gate.weigh.bias.clone()
    try:
        with torch.no_grad():
            gate.weigh.bias.fill_(-1.25)  # l = 1/4 + f(e)
            gate.weigh.weight.normal_(generator=torch.Generator().manual_seed(0))
        found = explain(english, ENGLISH)
    finally:
        with torch.no_grad():
            gate.weigh.bias.copy_(bias)
            gate.weigh.weight.zero_()
    assert not found.gaps_are_equal
    whole = sum(found.logit.values())
    assert sum(found.attribution) + found.constant == pytest.approx(whole, abs=TOLERANCE)


def test_without_captum_all_else_is_explained(english, folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    found = explain(english, ENGLISH)
    assert found.attribution is None and found.constant is None and any(found.bag_contribution)
    out = run(capsys, folder, ENGLISH)
    assert "adds        left out, since captum is missing: pip install 'vnait[explain]'" in out
    assert "(constant)" not in out and "  adds  " not in out
    assert [column.title for column in export.token_table(found).columns][1] == "of it by the bag of words"


def test_that_a_text_is_cut_is_logged_once(english, caplog, monkeypatch):
    monkeypatch.setattr(explanation, "attribute", lambda *_: Attribution([], 0.0))  # seconds
    long = " ".join(["film"] * (english.model.config.max_length + 1))
    with caplog.at_level(logging.WARNING, logger="vnait"):
        explain(english, long)
    assert len(caplog.records) == 1 and "cut" in caplog.text


def test_attention_on_the_first_token_is_called_so(english):
    attention = english.model.model.encoder.blocks[0].attention
    kept = {name: parameter.clone() for name, parameter in attention.named_parameters()}
    try:
        with torch.no_grad():
            attention.query.weight.zero_()
            attention.query.bias.copy_(_key_of_first(english))
        found = explain(english, ENGLISH)
        assert {str(head) for head in found.heads[0]} == {"first token"}
    finally:
        with torch.no_grad():
            for name, parameter in attention.named_parameters():
                parameter.copy_(kept[name])


@torch.no_grad()
def _key_of_first(one):
    """A query that is 50 times what sets the first key of each head apart from the others."""
    model = one.model.model.eval()
    ids = torch.tensor(text.encode(one.tokenizer, [ENGLISH], max_length=64))
    output = model.method(*model.semantics(ids, None, None))
    block = model.encoder.blocks[0]
    key = block.attention.heads(block.attention.key(block.norm_attention(output.x)))[0]
    aside = torch.stack([torch.linalg.pinv(head[:1] - head[1:]).sum(-1) for head in key])
    return 50 * aside.flatten()


@pytest.mark.parametrize(("words", "shown"), [("a warm film", True), ("we", False)])
def test_figure_shows_the_numbers(english, words, shown):
    found = explain(english, words)
    drawn = figure.figure(found)
    tokens, pairs = drawn.subfigs
    line, adds, gaps, rho = tokens.axes
    assert [one.get_text() for one in line.texts] == found.tokens
    assert [one.get_xdata()[0] for one in line.lines] == pytest.approx(found.coordinates)
    assert [bar.get_height() for bar in adds.patches] == pytest.approx(found.attribution)
    assert [bar.get_height() for bar in gaps.patches] == pytest.approx(found.gaps)
    assert [bar.get_height() for bar in rho.patches] == pytest.approx(found.similarity)
    assert (line.texts[0].get_color() == "black") == shown, "unknown words are grey"
    maps = {axes.get_title(): axes for axes in pairs.axes if axes.images}
    for layer, row in enumerate(found.heads):
        for head, kind in enumerate(row):
            image = maps[f"layer {layer + 1}, head {head + 1}: {kind}"].images[0]
            np.testing.assert_array_equal(image.get_array(), found.attention[layer, head])
    bars = next(axes for axes in pairs.axes if "by term" in axes.get_title())
    widths = np.array([bar.get_width() for bar in bars.patches])
    assert widths.sum() == pytest.approx(
        100 * len(found.heads[0]) * any(map(any, found.shares.values())), rel=1e-4
    )


def test_names_are_moved_apart_and_stay_in_order():
    moved = figure.spread(np.array([0.0, 0.1, 0.2, 50.0, 100.0, 100.0]), 5.0)
    assert np.diff(moved).min() >= 5 - 1e-9 and moved[3] == 50
    np.testing.assert_allclose(moved, [-4.9, 0.1, 5.1, 50, 97.5, 102.5])


def test_letters_that_no_font_has_are_boxes(english, monkeypatch, caplog):
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", list)
    with caplog.at_level(logging.WARNING, logger="vnait"):
        families, words = display.drawable(["我 a", "b"])
    assert (families, words) == (["DejaVu Sans"], ["\N{WHITE SQUARE} a", "b"])
    assert "no installed font has 我; boxes are drawn" in caplog.text


def test_a_font_is_found_for_chinese(english, tmp_path):
    families, words = display.drawable(["我 a"])
    if len(families) == 1:
        pytest.skip("no Chinese font is installed")
    assert words == ["我 a"]
    export.save(explain(english, "我 a"), tmp_path / "one.png")  # a missing glyph would warn, and so fail


# bertviz leaves its script open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_bertviz_gets_the_models_own_attention(folder, tmp_path, capsys, monkeypatch):
    pytest.importorskip("bertviz", reason="it brings sixty packages: pip install 'vnait[bertviz]'")
    found = explain(predict.load(folder), ENGLISH)
    path = tmp_path / "heads.html"
    assert run(capsys, folder, ENGLISH, "--bertviz", path).splitlines()[-1] == f"file        {path}"
    (given,) = re.findall(r"const params = (.*?); // HACK", path.read_text(encoding="utf-8"))
    (attention,) = json.loads(given)["attention"]
    assert attention["left_text"] == attention["right_text"] == found.tokens
    np.testing.assert_allclose(attention["attn"], found.attention, atol=1e-6)
    monkeypatch.setitem(sys.modules, "bertviz", None)
    with pytest.raises(InputError, match=r"pip install 'vnait\[bertviz\]'"):
        export.head_view(found)


def test_equal_gaps_are_named_where_they_could_differ(english, folder, capsys):
    explanation = explain(english, "a warm and funny film")
    equal = replace(explanation, gaps=[20.0] * 5)
    assert equal.gaps_are_equal and not replace(equal, gaps=[20.0, 20.0, 20.0, 19.0, 21.0]).gaps_are_equal
    assert not replace(equal, learns_gaps=False).gaps_are_equal
    line = "gaps        equal: all tokens count alike here, as in vnait-uniform"
    terminal.show_explanation(equal)
    assert line in capsys.readouterr().out
    terminal.show_explanation(replace(equal, gaps=[20.0, 5.0, 35.0, 20.0, 20.0]))
    assert line not in capsys.readouterr().out


def test_gaps_of_a_causal_method_are_what_was_learned_and_not_its_formula():
    one = fitted("vnait-causal")
    model = one.model.model
    running = model.method.coordinates.coordinates[0].running
    with torch.no_grad():
        found = explain(one, ENGLISH)
        e, mask = model.semantics(torch.tensor(one.ids([ENGLISH])), None, None)
        expected = running.sums(running.gaps(e, mask), mask)[0].diff(prepend=torch.zeros(1))
        running.log_tau += 1  # changes S, and no gap
        again = explain(one, ENGLISH)
    assert found.gaps == pytest.approx(expected.tolist()) == again.gaps
    assert found.coordinates != again.coordinates and np.diff(found.coordinates).min() > 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with made.csv, and a model that was trained on it."""
    folder = tmp_path_factory.mktemp("control")
    rows = "a warm and funny film,good\ndull from start to finish,bad\n" * 10
    (folder / "made.csv").write_text("text,label\n" + rows + "a slow start,\n" * 3)
    cli.main(["train", f"{folder}/made.csv", "--steps", "8", "--out", f"{folder}/model", "--quiet"])
    return folder


def test_a_control_is_the_same_training_with_shuffled_labels(trained, capsys, monkeypatch):
    calls = []
    monkeypatch.setattr(
        control, "fit", lambda *given, **_: calls.append(given) or predict.load(trained / "model")
    )
    out = run(capsys, trained / "model", ENGLISH, "--control", trained / "made.csv")
    ((settings, table, words),) = calls
    model = predict.load(trained / "model")
    learned = text.read(str(trained / "made.csv"))
    assert settings.settings == model.record.run and table.texts == learned.texts
    assert table.labels != learned.labels and sorted(table.labels) == sorted(learned.labels)
    same = vocabulary.vocabulary_of([*learned.texts, *learned.more])
    assert words.fingerprint == same.fingerprint
    assert "shuffled" in out.splitlines()[3] and "the same training with shuffled labels" in out
    found = replace(explain(model, ENGLISH), control=[1.0, 2.0, 3.0, 4.0, 5.0])
    (row,) = [part for part in figure.figure(found).subfigs[0].axes if part.get_ylabel() == "gap before"]
    assert list(row.lines[-1].get_ydata()) == found.control
    assert [row[-3] for row in export.token_table(found).rows] == found.control


def test_a_model_that_went_on_from_another_has_no_control(trained):
    model = predict.load(trained / "model")
    went_on = replace(model, record=replace(model.record, data={**model.record.data, "continued": "a"}))
    table = text.read(str(trained / "made.csv"))
    with pytest.raises(InputError, match="this model went on from another one"):
        control.shuffled(went_on, table)


def test_a_control_of_a_tuned_base_starts_from_the_base(trained, monkeypatch):
    calls = []
    monkeypatch.setattr(control, "fit", lambda *given, **_: calls.append(given))
    base = Path(__file__).parent / "golden" / "format_9" / "tiny_bert"
    model, table = predict.load(trained / "model"), text.read(str(trained / "made.csv"))
    settings = {**model.record.run, "base": str(base)}
    control.shuffled(replace(model, record=replace(model.record, run=settings)), table)
    ((run, mixed, words),) = calls
    assert run.base == words.source == str(base) and mixed.labels != table.labels
    with pytest.raises(InputError, match="this training changed them"):
        settings = {**model.record.run, "tune_vectors": True}
        control.shuffled(replace(model, record=replace(model.record, run=settings)), table)


def test_a_control_of_other_rows_or_without_learned_gaps_is_refused(trained, english, tmp_path):
    other = text.Table(["a film", "dull"] * 3, ["good", "bad"] * 3, "other.csv", 0)
    with pytest.raises(InputError, match=r"other\.csv does not have the rows that the model learned from"):
        control.shuffled(english, other)
    fitted("rope").save(tmp_path / "rope")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["explain", f"{tmp_path}/rope", ENGLISH, "--control", f"{trained}/made.csv"])
    assert stopped.value.code == 2


@pytest.mark.parametrize("name", ["tfidf", "one-hot"])
def test_a_simple_model_is_drawn_and_has_no_attention(name, tmp_path, capsys):
    table = text.Table(
        ["a warm and funny film", "dull from start to finish"] * 10, ["good", "bad"] * 10, "made", 0
    )
    fit_baseline(name, table, tokenization="words", seed=0).save(tmp_path / "model")
    facts = predict.load(tmp_path / "model").explain(ENGLISH)
    (axes,) = simple.figure(facts).axes
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(facts["attribution"])
    assert [label.get_text() for label in axes.get_xticklabels()] == facts["tokens"] == ENGLISH.split()
    for ending in ("svg", "html"):
        path = tmp_path / f"one.{ending}"
        assert (
            run(capsys, tmp_path / "model", ENGLISH, "--out", path).splitlines()[-1] == f"file        {path}"
        )
    ElementTree.parse(tmp_path / "one.svg")
    page = (tmp_path / "one.html").read_text()
    assert facts["by"] in page and "data:image/png;base64," in page
    with pytest.raises(SystemExit):
        cli.main(["explain", f"{tmp_path}/model", ENGLISH, "--bertviz", f"{tmp_path}/heads.html"])
    assert f"{name} has no attention and no gaps; leave --bertviz" in capsys.readouterr().err


def run(capsys, *arguments):
    cli.main(["explain", *map(str, arguments)])
    return capsys.readouterr().out


@pytest.mark.slow
def test_files_are_written_and_are_the_same_again(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = explain(predict.load(folder), ENGLISH)
    for name in ("one.png", "one.svg", "one.html"):
        out = run(capsys, folder, ENGLISH, "--out", name)
        assert out.splitlines()[-1] == f"file        {name}"
    for ending in ("png", "svg"):
        export.save(found, f"again.{ending}")
        assert same_picture(Path(f"one.{ending}"), Path(f"again.{ending}"))
    with Image.open("one.png") as picture:
        assert picture.width > 900
    ElementTree.parse("one.svg")
    page = (tmp_path / "one.html").read_text()
    assert "data:image/png;base64," in page and "position-position" in page and 'src="http' not in page
    assert json.loads(run(capsys, folder, ENGLISH, "--json", "--out", "one.png"))["file"] == "one.png"


def test_another_ending_is_refused_before_the_model_is_read(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["explain", "nowhere", "a film", "--out", "one.docx"])
    assert stopped.value.code == 2
    assert "one.docx: an explanation is written as .png, .svg, .pdf, .html" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"\.docx"):
        export.check_path("one.docx")


@pytest.mark.parametrize("columns", ["80", "120"])
def test_terminal_fits_and_has_no_control_characters(folder, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    out = run(capsys, folder, "我 warm \x1b[31m film " + "x" * 60 + " a")
    assert max(map(cell_len, out.splitlines())) <= int(columns)
    assert not CONTROL.search(out)
    assert re.search(r"^heads       layer 1: ", out, re.M) and re.search(
        r"^scores      of layer 1, shares in %", out, re.M
    )
    assert "rho" in out


def test_terminal_prints_rho_under_its_heading_in_cells(folder, capsys):
    lines = run(capsys, folder, "我 warm").splitlines()
    end = lines[3].index("rho") + 3
    found = explain(predict.load(folder), "我 warm")
    for line, rho in zip(lines[4:6], found.similarity, strict=True):
        wide = cell_len(line) - len(line)
        assert line[: end - wide].endswith(f"{rho:5.2f}")


def test_explain_is_public():
    assert vnait.explain is explain
