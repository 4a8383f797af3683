"""Coordinates that move in training: Jitter as CAPE, Randomized; and the saturating coordinate of
decoders.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from helpers import everything, python
from vnait.positions.coordinates import Ends, Index, Jitter, Randomized, Running, Saturating, Span, moving

SIDES = {
    "right": [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]],
    "left": [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]],
}


def mask_of(side: str) -> torch.Tensor:
    return torch.tensor(SIDES[side]).bool()


@given(shift=st.floats(0, 9), local=st.floats(0, 0.49), stretch=st.floats(1, 3), length=st.integers(2, 30))
def test_jitter_draws_what_cape_writes(shift, local, stretch, length):
    """lambda (p + shift + local): bounds of every part, order kept while the local part is below half a
    gap.
    """
    torch.manual_seed(0)
    at = Jitter(Index(), shift=shift, local=local, stretch=stretch)(None, everything(length, rows=8))[..., 0]
    plain = Index()(None, everything(length, rows=8))[..., 0]
    assert (at.diff(dim=-1) > 0).all()
    slack = (shift + local) * stretch + (stretch - 1) * plain + 1e-3
    assert ((at - plain).abs() <= slack).all()
    gaps = at.diff(dim=-1)
    assert (gaps <= (1 + 2 * local) * stretch + 1e-3).all() and (
        gaps >= (1 - 2 * local) / stretch - 1e-3
    ).all()


def test_one_stretch_a_sentence_and_it_is_log_uniform():
    torch.manual_seed(0)
    gaps = Jitter(Index(), shift=0, stretch=4.0)(None, everything(3, rows=4000))[..., 0].diff(dim=-1)
    assert torch.allclose(gaps[:, 0], gaps[:, 1], rtol=1e-5)
    octaves = gaps[:, 0].log() / torch.tensor(4.0).log()
    assert (
        octaves.abs().max() <= 1 + 1e-6 and octaves.mean().abs() < 0.05 and abs(octaves.var() - 1 / 3) < 0.03
    )


def test_local_noise_is_each_tokens_own_and_padding_follows_its_neighbour():
    torch.manual_seed(0)
    for side in SIDES:
        mask = mask_of(side)
        at = Jitter(Index(), shift=0, local=0.4)(None, mask)[..., 0]
        moved = (at - Index()(None, mask)[..., 0])[1]
        assert len(moved.unique()) == 5
        real = at[0][mask[0]]
        assert (at[0][~mask[0]] == (real[-1] if side == "right" else real[0])).all()


def test_jitter_leaves_the_ends_alone():
    jittered = Jitter(Ends(Span(source="uniform")), shift=6, local=0.1, stretch=2)
    plain = jittered.coordinates(None, everything(6))
    assert torch.equal(jittered(None, everything(6))[..., 1:], plain[..., 1:])


def test_jitter_leaves_a_share_of_the_sentences_as_they_are():
    torch.manual_seed(0)
    jittered = Jitter(Index(), shift=6, local=0.1, stretch=2, share=0.25)
    mask = everything(4, rows=4000)
    moved = (jittered(None, mask) != Index()(None, mask)).flatten(1)
    assert torch.equal(moved.any(-1), moved.all(-1))
    assert 0.22 < moved.any(-1).float().mean() < 0.28


@pytest.mark.parametrize(
    "wrong", [{"shift": -1}, {"local": -0.1}, {"stretch": 0.5}, {"share": 0}, {"share": 1.1}]
)
def test_jitter_refuses_what_is_no_width_and_no_share(wrong):
    with pytest.raises(ValueError, match="expected shift, local >= 0, stretch >= 1 and share in"):
        Jitter(Index(), **wrong)


of_both_draws = pytest.mark.parametrize("quick", [True, False], ids=["as on the CPU", "as on a GPU"])


@of_both_draws
@pytest.mark.parametrize("draw", ["subset", "floats"])
@pytest.mark.parametrize("side", list(SIDES))
def test_randomized_positions_are_sorted_distinct_and_below_the_limit(draw, side, quick, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(moving, "readable", lambda mask: quick)
    mask = mask_of(side)
    at = Randomized(limit=50, draw=draw)(None, mask)[..., 0]
    for row, real in zip(at, mask, strict=True):
        assert (row[real].diff() > 0).all() and row.min() >= 0 and row.max() < 50
        edge = row[real][-1] if side == "right" else row[real][0]
        assert (row[~real] == edge).all()
    assert bool((at == at.round()).all()) == (draw == "subset")
    assert not torch.equal(at[0][mask[0]], at[1][:3])


@of_both_draws
def test_randomized_positions_cover_the_range_evenly(quick, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(moving, "readable", lambda mask: quick)
    at = Randomized(limit=100)(None, everything(10, rows=2000))[..., 0]
    counts = torch.bincount(at.long().flatten(), minlength=100)
    assert counts.min() > 140 and counts.max() < 260  # 200 each, standard deviation 13


@pytest.mark.parametrize("draw", ["subset", "floats"])
@pytest.mark.parametrize("side", list(SIDES))
def test_randomized_is_the_mean_of_its_draws_in_evaluation(draw, side):
    torch.manual_seed(0)
    part, mask = Randomized(limit=50, draw=draw), mask_of(side)
    drawn = part(None, mask.repeat(4000, 1))[..., 0].view(4000, *mask.shape).mean(0)
    settled = part.eval()(None, mask)[..., 0]
    torch.testing.assert_close(settled[mask], drawn[mask], atol=0.6, rtol=0)  # a standard error is 0.2
    assert torch.equal(settled, part(None, mask)[..., 0]) and not part.causal


def test_randomized_refuses_a_text_that_is_too_long_and_an_unknown_draw():
    with pytest.raises(ValueError, match=r"a text of 5 tokens .* limit=4; raise it"):
        Randomized(limit=4)(None, everything(5))
    with pytest.raises(ValueError, match="take one of subset, floats"):
        Randomized(draw="other")
    assert Randomized(limit=4, draw="floats")(None, everything(5)).shape == (1, 5, 1)


@pytest.mark.long
def test_randomized_draws_in_one_graph():
    """In a process of its own: the tests' check of types can't be traced."""
    code = """
import torch
from vnait.positions.coordinates import Randomized
for draw in ("subset", "floats"):
    part = torch.compile(Randomized(limit=50, draw=draw), backend="eager", fullgraph=True)
    assert (part(None, torch.ones(3, 9, dtype=torch.bool))[..., 0].diff() > 0).all()
"""
    python(code)


def test_saturating_sees_longer_texts_in_training_alone():
    part, mask = Saturating(middle=10.0, stretch=8.0), torch.ones(400, 10, dtype=torch.bool)
    plain = Saturating(middle=10.0)(None, mask[:1])
    assert not part.eval().per_sentence and torch.equal(part(None, mask[:1]), plain)
    torch.manual_seed(0)
    last = part.train()(None, mask)[:, -1, 0]
    assert part.per_sentence
    factor = last / (100 - last)  # of R / tau, which is 1 here
    assert factor.min() >= 1 and factor.max() <= 8
    assert (factor.log() / math.log(8)).mean().item() == pytest.approx(0.5, abs=0.05)


def test_saturating_is_its_formula_and_never_changes_when_tokens_follow():
    part = Saturating(middle=7.0)
    with torch.no_grad():
        part.log_tau.add_(0.5)
    tau = part.log_tau.detach().double().exp()  # held in float32
    assert tau.item() == pytest.approx(7 * math.exp(0.5), rel=1e-6)
    running = Running()(None, everything(40))
    whole = part(None, everything(40))
    torch.testing.assert_close(whole, 100 * running / (running + tau))
    torch.testing.assert_close(part(None, everything(9)), whole[:, :9])
    assert part.causal and (whole.diff(dim=1) > 0).all() and whole.max() < 100
    whole.sum().backward()
    assert nn.utils.parameters_to_vector([part.log_tau.grad]).abs().item() > 0


def test_saturating_needs_a_middle():
    with pytest.raises(ValueError, match="positive number of tokens"):
        Saturating(middle=0)
    with pytest.raises(ValueError, match=r"stretch=0\.5; it must be 1"):
        Saturating(stretch=0.5)
