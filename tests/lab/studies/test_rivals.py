"""Judges that read a rival: what a simple rival does as well is not confirmed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vnait_lab.studies import (
    decision,
    extrapolation,
    frequencies,
    horizons,
    layers,
    middle,
    reinforcement,
    seasonality,
    splicing,
    translation,
)
from vnait_lab.study import Findings, Metrics

SEEDS = range(3)


def over_seeds(variants: dict[str, Metrics]) -> Findings:
    """Findings with these metrics; seeds differ by a thousandth of each number."""
    return Findings(
        {
            (variant, seed): {name: shaken(value, seed) for name, value in metrics.items()}
            for variant, metrics in variants.items()
            for seed in SEEDS
        }
    )


def shaken(value: Any, seed: int) -> Any:
    return (np.asarray(value, dtype=float) * (1 + 0.001 * seed)).tolist()


def returns(window: float) -> Findings:
    every = {"relative": 120.0, "rope": 120.0, "learned": 80.0, "sinusoidal": 100.0, "vnait-causal": 110.0}
    return over_seeds({name: {"return": mean} for name, mean in {**every, "window": window}.items()})


def errors(span: float) -> Findings:
    every = {"phases": 0.4, "index": 0.9, "rope": 0.8, "span": span}
    return over_seeds({name: dict.fromkeys(horizons.AHEAD, error) for name, error in every.items()})


def branch(scrambled: float) -> Findings:
    attention = {"mass": 0.6, "mass beside": 0.05, "mass, scrambled": scrambled}
    return over_seeds({"relative": attention, "untrained": {"mass": 0.1, "mass beside": 0.1}})


def junctions(letters: float) -> Findings:
    return over_seeds(
        {"junctions": {"accuracy": 0.95, "most frequent": 0.5}, "letters": {"accuracy": letters}}
    )


def bleu(masked: float) -> Findings:
    every = {"none": 20.0, "source": 90.0, "target": 21.0, "causal source": masked}
    return over_seeds({f"grammar, {name}": {"bleu, known": score} for name, score in every.items()})


def shifts(moved: float) -> Findings:
    fixed = {"shifts": [0.01, 0.5, 0.5]}
    return over_seeds(
        dict.fromkeys(reinforcement.ABSOLUTE, fixed)
        | {name + reinforcement.MOVED: {"shifts": [0.01, moved, moved]} for name in reinforcement.ABSOLUTE}
    )


def policies(late: float) -> Findings:
    flat = {"accuracy": 1.0, "late": 1.0, "scores": [1.0] * 5}
    fixed = {"accuracy": 1.0, "late": 0.7, "scores": [1.0, 0.7, 0.7, 0.7, 0.7]}
    moved = {"accuracy": 0.95, "late": late, "scores": [0.95] * 5}
    return over_seeds(
        dict.fromkeys(reinforcement.DIFFERENCES, flat)
        | dict.fromkeys(reinforcement.ABSOLUTE, fixed)
        | {name + reinforcement.MOVED: moved for name in reinforcement.ABSOLUTE}
    )


def seasons(double: float) -> Findings:
    metrics = {"periodic": 0.9, "1.02 periods": 0.0, "7/5 periods": 0.0, "2 periods": double}
    return over_seeds(dict.fromkeys(seasonality.PERIODS, metrics))


def bands(high: tuple[float, float, float]) -> Findings:
    """The share that `high` has of the first question, per seed, where `all` has .5 and `low` .1."""
    rest = dict.fromkeys(frequencies.TASKS[1:], 0.5)
    first = frequencies.TASKS[0]
    return Findings(
        {("all", seed): {first: 0.5, **rest} for seed in SEEDS}
        | {("high", seed): {first: high[seed], **rest} for seed in SEEDS}
        | {("low", seed): {first: 0.1 + 0.001 * seed, **rest} for seed in SEEDS}
    )


def attended(none: float) -> Findings:
    codes = {name: {"attention": [0.9, 0.9]} for name in layers.ABSOLUTE}
    return over_seeds({**codes, "none": {"attention": [0.1, none]}})


def read_on(none: float) -> Findings:
    inside = {"inside": 6.0}
    return over_seeds(
        {
            name: {**inside, extrapolation.BEYOND: ratio}
            for name, ratio in {"alibi": 1.05, "none": none, "rope": 2.0}.items()
        }
    )


def halves(bent: float) -> Findings:
    sources = dict.fromkeys(middle.LEARNED, 0.99) | dict.fromkeys(middle.BENT, bent)
    return over_seeds(
        {
            f"{source}, middle": {"half": [share] * 3, "from_linear": [1.0] * 3}
            for source, share in sources.items()
        }
    )


@pytest.mark.parametrize(
    ("judge", "findings", "word"),
    [
        (decision.judge_cost, returns(window=110), "confirmed"),
        (decision.judge_cost, returns(window=150), "refuted"),
        (horizons.judge_index, errors(span=0.7), "confirmed"),
        (horizons.judge_index, errors(span=0.4), "refuted"),
        (splicing.judge_looks, branch(scrambled=0.1), "confirmed"),
        (splicing.judge_looks, branch(scrambled=0.3), "refuted"),
        (splicing.judge_junctions, junctions(letters=0.93), "confirmed"),
        (splicing.judge_junctions, junctions(letters=0.96), "conditional"),
        (translation.judge_side, bleu(masked=22), "confirmed"),
        (translation.judge_side, bleu(masked=90), "conditional"),
        (reinforcement.judge_absolute, shifts(moved=0.5), "confirmed"),
        (reinforcement.judge_absolute, shifts(moved=0.05), "conditional"),
        (reinforcement.judge_policy, policies(late=0.7), "confirmed"),
        (reinforcement.judge_policy, policies(late=0.95), "conditional"),
        (seasonality.judge_matched, seasons(double=0.1), "confirmed"),
        (seasonality.judge_matched, seasons(double=0.9), "conditional"),
        (frequencies.judge_scales, bands((0.3, 0.31, 0.32)), "confirmed"),
        (frequencies.judge_scales, bands((0.1, 0.5, 0.6)), "undecided"),
        (frequencies.judge_scales, bands((0.5, 0.5, 0.5)), "refuted"),
        (layers.judge_attention, attended(none=0.5), "confirmed"),
        (layers.judge_attention, attended(none=0.85), "refuted"),
        (extrapolation.judge_alibi, read_on(none=1.2), "confirmed"),
        (extrapolation.judge_alibi, read_on(none=1.0), "refuted"),
        (middle.judge_sources, halves(bent=0.97), "confirmed"),
        (middle.judge_sources, halves(bent=0.9), "conditional"),
    ],
)
def test_a_rival_that_does_as_well_takes_the_confirmation(judge: Any, findings: Findings, word: str) -> None:
    assert judge.judge(findings).word == word
