"""Figures of methods: every one draws, the numbers are the method's own, and what can't be drawn is said in
one sentence.
"""

import io
import json
from itertools import chain

import numpy as np
import pytest
import torch
from PIL import Image

import vnait
from conftest import same_picture
from helpers import methods_of_each_kind, record
from vnait import cli
from vnait.positions.encodings import AlibiBias, Rotary, Sinusoid, Sum
from vnait.positions.injection import Injection
from vnait.results import drawing
from vnait.results.colours import COLOURS
from vnait.results.drawing import accuracy, save
from vnait.results.drawing.panels import decay, evaluate, kernel
from vnait.results.results import Results
from vnait.shared.errors import InputError
from vnait.train import predict

SIZE = {"length": 20, "dim": 32}


def shown(name, **size):
    return drawing.untrained(name, texts=drawing.random_words(**SIZE | size))


def axes_of(figure, title):
    found = [axes for axes in chain(*(part.axes for part in figure.subfigs)) if axes.get_title() == title]
    assert len(found) == 1, title
    return found[0]


def image(figure, title):
    return np.asarray(axes_of(figure, title).images[0].get_array())


def line(axes, label):
    return next(one.get_xydata().T for one in axes.lines if one.get_label() == label)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained lpi, whose gaps depend on the words."""
    classifier = vnait.TextClassifier("lpi", steps=1, max_length=40)
    classifier.fit(["a warm and funny film", "dull from start to finish"] * 10, ["good", "bad"] * 10)
    path = tmp_path_factory.mktemp("drawing") / "model"
    classifier.save(path)
    fitted = predict.load(path)
    with torch.no_grad():
        fitted.model.model.method.coordinates.source.tell.weight.normal_(
            generator=torch.Generator().manual_seed(1)
        )
    fitted.save(path)
    return path


@pytest.mark.parametrize("name", methods_of_each_kind())
def test_every_method_draws_what_it_injects_with_labels(name):
    one = shown(name)
    figure = drawing.figure([one])
    output = one.method.eval()(one.texts[0][None], torch.ones(1, 20, dtype=torch.bool))
    slots = output.injection.dense()
    (titles,) = drawing.titles(figure)
    assert titles[0].startswith("coordinates")
    assert ("added vectors" in titles) == (slots.added is not None)
    assert ("rotary angles" in titles) == (slots.rotary is not None)
    assert ("stretches" in titles) == (slots.stretch is not None)
    heads = 0 if slots.bias is None else slots.bias.shape[1]
    assert ("bias, head 1 of 4" in titles, "bias, all heads" in titles) == (heads == 4, heads == 1)
    assert ("scale" in titles) == (slots.scale is not None)
    assert ("coordinates (all axes)" in titles) == (output.at.shape[-1] > 1)
    panels = [axes for axes in figure.subfigs[0].axes if axes.get_title()]
    assert all(axes.get_xlabel() and axes.get_ylabel() and (axes.images or axes.lines) for axes in panels)


def test_a_panel_of_added_vectors_holds_the_methods_own():
    one = shown("vnait")
    output = evaluate(one.method, one.texts[0])
    figure = drawing.figure([one])
    added = output.injection.added[0].double().numpy()
    np.testing.assert_array_equal(image(figure, "added vectors"), added)
    unit = added / np.linalg.norm(added, axis=1, keepdims=True)
    np.testing.assert_allclose(image(figure, "similarity of added vectors"), unit @ unit.T, atol=1e-6)
    axes = axes_of(figure, "coordinates (axis 0)")
    np.testing.assert_array_equal(line(axes, "n = 20"), [np.arange(1, 21) / 20, output.at[0, :, 0].numpy()])
    assert {"n = 20", "n = 10", "n = 5", "drawn in training"} <= {one.get_label() for one in axes.lines}
    each = axes_of(figure, "coordinates (all axes)")
    np.testing.assert_array_equal(line(each, "axis 2")[1], output.at[0, :, 2].numpy())
    scale = line(axes_of(figure, "scale"), "n = 5")[1]
    np.testing.assert_allclose(scale, np.log(5) / np.log(24), rtol=1e-6)


def test_the_kernel_of_a_turn_is_the_mean_score_of_equal_queries_and_keys():
    """By the rotation itself: a query and a key of ones, turned and stretched pair by pair."""
    one = shown("xpos")
    output = evaluate(one.method, one.texts[0]).injection
    turn, stretch = output.rotary[0].double(), output.stretch[0].double()
    query = torch.stack([turn.cos(), turn.sin()]) * stretch.exp()
    key = torch.stack([turn.cos(), turn.sin()]) * (-stretch).exp()
    scores = torch.einsum("cik,cjk->ij", query, key) / turn.shape[1]
    figure = drawing.figure([one])
    np.testing.assert_allclose(image(figure, "similarity by rotation"), scores.numpy(), atol=1e-12)
    np.testing.assert_array_equal(image(figure, "rotary angles"), output.rotary[0].cos().double().numpy())
    np.testing.assert_array_equal(image(figure, "stretches"), stretch.numpy())
    np.testing.assert_allclose(kernel(Injection(rotary=turn[None])).diagonal().numpy(), 1)


def test_a_panel_of_a_bias_holds_the_first_head_and_a_line_a_head():
    one = shown("alibi")
    bias = evaluate(one.method, one.texts[0]).injection.bias[0].double().numpy()
    figure = drawing.figure([one])
    np.testing.assert_array_equal(image(figure, "bias, head 1 of 4"), bias[0])
    axes = axes_of(figure, "decay of the bias")
    for head in range(4):
        away, mean = line(axes, f"head {head + 1}")
        np.testing.assert_array_equal(away, np.arange(-19, 20))
        np.testing.assert_allclose(mean[19:], bias[head, 0])


def test_decay_goes_by_key_less_query():
    """Of a table whose entries say which pair they are."""
    table = torch.tensor([[0.0, 1, 2], [10, 11, 12], [20, 21, 22]])
    away, (mean, least, most) = decay(table)
    assert away.tolist() == [-2, -1, 0, 1, 2]
    assert mean.tolist() == [20, 15.5, 11, 6.5, 2]
    assert (least[3], most[3]) == (1, 12)


def test_rows_share_columns_by_kind_and_a_method_of_two_slots_has_both():
    both = vnait.Method(
        coordinates=vnait.positions.coordinates.Index(),
        encoding=Sum(Sinusoid(dim=32), Rotary(width=8), AlibiBias(num_heads=4)),
    )
    own = drawing.Example(name="mine", method=both, texts=drawing.random_words(**SIZE))
    figure = drawing.figure([own, shown("alibi"), shown("none")])
    first, second, third = drawing.titles(figure)
    assert {"added vectors", "rotary angles", "bias, head 1 of 4"} <= set(first)
    assert second == ["coordinates", "bias, head 1 of 4", "decay of the bias"]
    assert third == ["coordinates"]
    columns = [
        {axes.get_subplotspec().colspan.start for axes in part.axes if axes.get_title()}
        for part in figure.subfigs
    ]
    assert columns[1] == {0, 3, 6}  # where; after two codes; after three tables of pairs


def test_drawing_changes_nothing():
    """Neither the method's mode nor the state of chance."""
    one = shown("cape")
    one.method.train()
    before = torch.get_rng_state()
    drawing.figure([one])
    shown("vnait")
    assert one.method.training
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.slow
def test_a_file_is_written_whole_and_the_same_again(tmp_path, ending):
    for name in ("one", "two"):
        drawing.save(drawing.figure([shown("rope")]), tmp_path / f"{name}.{ending}")
    one, two = (tmp_path / f"{name}.{ending}" for name in ("one", "two"))
    assert same_picture(one, two)
    assert sorted(tmp_path.iterdir()) == [one, two]
    drawing.save(drawing.figure([shown("sinusoidal")]), tmp_path / f"other.{ending}")
    assert not same_picture(one, tmp_path / f"other.{ending}")
    assert one.read_bytes().startswith(b"\x89PNG" if ending == "png" else b"<?xml")


def test_a_trained_model_is_shown_its_own_words(folder):
    fitted = predict.load(folder)
    (one,) = drawing.from_options(
        [], fitted=fitted, texts=["a warm film", "dull and dull"], length=None, dim=None
    )
    model = fitted.model.model
    ids = fitted.tokenizer("a warm film")["input_ids"]
    at = model.method(*model.semantics(torch.tensor([ids]), None, None)).at[0, :, 0]
    axes = axes_of(drawing.figure([one]), "coordinates")
    assert [curve.get_label() for curve in axes.lines] == ["text 1, n = 3", "text 2, n = 3"]
    np.testing.assert_allclose(line(axes, "text 1, n = 3")[1], at.detach().numpy())
    assert np.ptp(np.diff([0, *at.tolist()])) > 0.01  # the gaps were learned


def test_a_trained_model_beside_a_name_is_shown_random_words_at_its_size(folder):
    fitted = predict.load(folder)
    rope, lpi = drawing.from_options(["rope"], fitted=fitted, texts=[], length=16, dim=None)
    assert [len(text) for text in lpi.texts] == [16, 8, 4]
    assert torch.equal(rope.texts[0], lpi.texts[0])
    assert lpi.texts[0].shape[1] == fitted.model.config.hidden_size
    assert (
        evaluate(rope.method, rope.texts[0]).injection.rotary.shape
        == evaluate(lpi.method, lpi.texts[0]).injection.rotary.shape
    )


def test_the_command_writes_the_file_and_lists_what_is_in_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cli.main(["draw", "rope", "alibi", "--length", "12", "--dim", "32", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["file"] == "runs/draw/rope-alibi.png"
    assert (tmp_path / found["file"]).stat().st_size > 10_000
    assert [row["method"] for row in found["rows"]] == ["rope", "alibi"]
    assert found["rows"][0]["panels"] == [
        "coordinates",
        "rotary angles",
        "similarity by rotation",
        "decay of the kernel",
    ]


def test_the_command_draws_a_model(tmp_path, monkeypatch, capsys, folder):
    monkeypatch.chdir(tmp_path)
    cli.main(["draw", "--model", str(folder), "--example", "funny and warm", "--out", "own.svg"])
    assert capsys.readouterr().out == "own.svg\n"
    assert "trained" in (tmp_path / "own.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "method 'nothing' is not known. Take one of none, sinusoidal"),
        ([], "there is nothing to draw"),
        (["rope", "--out", "rope.gif"], "rope.gif: a figure is written as .png, .svg, .pdf"),
        (["rope", "--out", "rope"], "a figure is written as .png, .svg, .pdf"),
        (["none", "--out", "file/none.png"], "can't write file/none.png"),
        (["none", "--out", "taken.png"], "taken.png was not written"),
        (["none", "--example", "some words"], "--example needs --model"),
        (["--model", "missing"], "missing"),
        (["rope", "--dim", "4"], "width"),
        (["rope", "--length", "0"], "--length"),
        (["rope", "--length", "2000"], "--length"),
    ],
)
def test_what_is_wrong_is_reported_in_one_sentence(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(SystemExit) as left:
        cli.main(["draw", *arguments])
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert says in said
    assert len(said.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "taken.png"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"dim": 8}, "--dim is the model's own"),
        ({"length": 41}, "the model reads 40 tokens at most"),
        ({"texts": ["half \ud800"]}, "not UTF-8"),
        ({"texts": ["a film"], "length": 8}, "--length follows from --example"),
    ],
)
def test_what_a_model_cant_be_asked(folder, asked, says):
    with pytest.raises(InputError, match=says):
        drawing.from_options(
            [], fitted=predict.load(folder), **{"texts": [], "length": None, "dim": None} | asked
        )


def test_one_token_draws():
    drawing.figure([shown("vnait", length=1)]).savefig(io.BytesIO(), format="png", dpi=30)


def compared(shots):
    methods = {
        "none": {"steps": 9},
        "tfidf": {},
        "a long name of a method, longer than thirty": {"steps": 9},
    }
    records = [
        record(
            method,
            seed,
            run=run,
            data={"shots": count},
            metrics={"accuracy": 0.5 + 0.1 * number + 0.01 * seed},
        )
        for number, (method, run) in enumerate(methods.items())
        for count in shots
        for seed in range(3)
    ]
    return Results(records=records, methods=list(methods), shots=shots, reference="none")


def test_a_comparison_has_a_row_per_method_the_best_on_top_and_baselines_hollow():
    (axes,) = accuracy.figure(compared([16]), 0.4).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "none",
        "tfidf",
        "a long name of a method, long…",
    ]
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(mark.get_xdata()[0]) for mark in marks] == pytest.approx([51, 61, 71])
    assert [mark.get_markerfacecolor() for mark in marks] == [COLOURS[0], "white", COLOURS[0]]


def test_several_numbers_of_labels_are_a_line_per_method(tmp_path):
    drawn = accuracy.figure(compared([16, 64, "all"]), 0.4)
    (axes,) = drawn.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["16", "64", "all"]
    assert len(axes.get_legend().get_texts()) == 4
    save(drawn, tmp_path / "accuracy.png")
    with Image.open(tmp_path / "accuracy.png") as picture:
        assert picture.width > 700
