"""Segment and offset: the document structure in an untrained hierarchical code.

A position p of a text cut into segments of S tokens is encoded as PE(g) and PE(r) side by side, g = floor(p /
S) and r = p mod S. Two tokens share a segment exactly if their g-parts agree: their dot product is then
|PE(g)|^2 = d/2, and smaller otherwise. The whole vector mixes this with r, which is equal at equal offsets,
so its dot product is less informative than that of a flat code, which reflects nearness. And real segments
differ in length: floor(p / S) drifts away from them, and only the true segment numbers help.
"""

from __future__ import annotations

import re

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from vnait.positions.coordinates import Index, Segments
from vnait.positions.encodings import Axis, Concatenated, Sinusoid
from vnait.results.colours import COLOURS
from vnait.shared.statistics import interval
from vnait_lab.kit import Figure, above, decided, each
from vnait_lab.studies.figures import lines, panels
from vnait_lab.studies.parts.letters import news
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

LENGTH, SEGMENT = 512, 16  # tokens of a text, mean tokens of a segment
DIM = 64
HALF = DIM // 2
MATCHED = (1, 4, 8, 15)  # distances at which some pairs share a segment of 16, and some do not
DRAWN = {f"CV={cv}": cv for cv in (0.0, 0.1, 0.3, 0.6)}  # coefficient of variation of segment lengths
BOTH = Concatenated(Axis(Sinusoid(dim=HALF), 0), Axis(Sinusoid(dim=HALF), 1))
STUDY = Study.of(
    __name__,
    source="004, document hierarchy",
    data="none, or drawn segment lengths; sentence lengths of the Lee news corpus, in words",
    measure="area under the curve of dot products and step sizes; F1 of agreement of the segments' parts",
    smallest=".15 of area under the curve around chance; .05 of F1",
    variants={
        "hierarchical": f"PE(segment of {SEGMENT}) and PE(offset), {HALF} channels each, {LENGTH} tokens",
        "flat": f"PE(position), {DIM} channels",
        **{name: f"S the mean of gamma lengths, CV {spread}" for name, spread in DRAWN.items()},
        "sentences": "S the mean length of an article's sentences",
    },
    full=Budget(samples=100),
    quick=Budget(samples=40),
)


def drawn_lengths(spread: float, random: np.random.Generator) -> list[int]:
    """Rounded gamma lengths with mean 16 and the coefficient of variation `spread`, up to a total of 512 or
    more.
    """
    if spread == 0:
        drawn = np.full(LENGTH, SEGMENT)
    else:
        shape = spread**-2
        drawn = random.gamma(shape, SEGMENT / shape, LENGTH)
    lengths = np.maximum(np.rint(drawn), 1).astype(int)
    return lengths[: int(np.searchsorted(lengths.cumsum(), LENGTH)) + 1].tolist()


def sentence_lengths() -> list[list[int]]:
    """Words per sentence, for each news article with at least five sentences."""
    cut = [re.split(r"(?<=[.!?])\s+(?=[A-Z\"'])", line.strip()) for line in news().splitlines()]
    return [[len(sentence.split()) for sentence in article] for article in cut if len(article) >= 5]


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    whole = torch.ones(1, LENGTH, dtype=torch.bool)
    if variant == "flat":
        codes = Sinusoid(dim=DIM)(Index()(None, whole).double()).added[0]
        return {**reading(codes), "order": order(codes)}
    if variant == "hierarchical":
        codes = BOTH(Segments(size=SEGMENT)(None, whole).double()).added[0]
        full = {f"{name}_full": value for name, value in reading(codes).items()}
        part = {**reading(codes[:, :HALF]), "boundary": full["boundary_full"]}
        return {**full, **part, "order": order(*codes.split(HALF, 1))}
    if variant == "sentences":
        documents = sentence_lengths()
    else:
        random = np.random.default_rng(seed)
        documents = [drawn_lengths(DRAWN[variant], random) for _ in range(budget.samples)]
    scores = np.array([both_ways(lengths) for lengths in documents]).T.round(4).tolist()
    names = ("same_f1", "boundary_f1", "same_told_f1", "boundary_told_f1")
    spread = np.mean([np.std(lengths) / np.mean(lengths) for lengths in documents])
    return {**dict(zip(names, scores, strict=True)), "spread": float(spread)}


def reading(codes: Tensor) -> Metrics:
    """AUC of dot products for "same segment", over all pairs and over equally distant ones, and of step sizes
    for "new segment".
    """
    segment = torch.arange(LENGTH) // SEGMENT
    pairs = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    gram = rounded(codes @ codes.T)
    same = segment[:, None] == segment
    return {
        "same": float(roc_auc_score(same[pairs], gram[pairs])),
        "matched": [float(roc_auc_score(same.diagonal(gap), gram.diagonal(gap))) for gap in MATCHED],
        "wrong": float(((gram == codes.shape[1] / 2) != same)[pairs].sum()),
        "boundary": float(roc_auc_score(segment.diff() > 0, rounded(codes.diff(dim=0).norm(dim=1)))),
    }


def rounded(values: Tensor) -> Tensor:
    """Round, so that rounding errors do not count in an area under the curve."""
    return values.round(decimals=9)


def order(*parts: Tensor) -> float:
    """The share of pairs i < j ordered rightly by sin(w (p_j - p_i)), with the slowest w of the first part in
    which they differ.
    """
    sines = torch.zeros(LENGTH, LENGTH, dtype=torch.float64)
    for part in parts:
        sin, cos = part[:, -2], part[:, -1]
        sines = torch.where(sines == 0, rounded(cos[:, None] * sin - sin[:, None] * cos), sines)
    return float((sines[tuple(torch.triu_indices(LENGTH, LENGTH, 1))] > 0).double().mean())


def both_ways(lengths: list[int]) -> list[float]:
    """F1 of "same segment" and of boundaries by the g-part: with S the mean length, then with the true
    segments.
    """
    place = torch.arange(sum(lengths)).double()
    mean = sum(lengths) / len(lengths)
    mask = torch.ones(1, len(place), dtype=torch.bool)
    by_mean = torch.stack([place.div(mean).floor(), place.remainder(mean)], -1)[None]
    by_truth = Segments.from_lengths(torch.tensor([lengths]), mask)
    segment = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    scores = []
    for places in (by_mean, by_truth):
        codes = BOTH(Segments(size=SEGMENT)(None, mask, places).double()).added[0][:, :HALF]
        same = rounded(codes @ codes.T) == HALF / 2
        scores.append(f1((segment[:, None] == segment).triu(1), same.triu(1)))
        scores.append(f1(segment.diff() > 0, codes.diff(dim=0).norm(dim=1) > 1e-9))
    return scores


def f1(true: Tensor, predicted: Tensor) -> float:
    return float(2 * (true & predicted).sum() / (true.sum() + predicted.sum()).clamp_min(1))


@STUDY.control(
    "on equally distant pairs a flat code stays within .15 of chance",
    variant="flat",
    mechanism="hierarchical",
)
def flat_is_near_chance(findings: Findings) -> bool:
    return bool(np.abs(findings.curve("flat", "matched") - 0.5).max() <= 0.15)


@STUDY.claim("The code, untrained, tells whether two tokens are in one segment")
def judge_same(findings: Findings) -> Verdict:
    """Confirmed if the whole vector's area under the curve is 1; conditional if only that of the segment's
    part is.
    """
    part, full = findings.mean("hierarchical", "same"), findings.mean("hierarchical", "same_full")
    far = findings.curve("hierarchical", "matched_full")[0, -1]
    equally_far = max(findings.curve("flat", "matched")[0])
    summary = f"area under the curve {part:.3f} for the segment's part "
    wrong, pairs = findings.mean("hierarchical", "wrong"), LENGTH * (LENGTH - 1) // 2
    summary += f"({wrong:.0f} wrong of {pairs:,} pairs), "
    summary += f"{full:.3f} for the whole vector ({far:.2f} at distance {MATCHED[-1]}); a flat code "
    summary += f"{findings.mean('flat', 'same'):.3f}, by nearness ({equally_far:.2f} among equally distant "
    condition = "the segment's part is read alone"
    return decided(min(part, full) == 1, f"{summary}pairs)", refuted=part != 1, condition=condition)


def judge_exact(findings: Findings, metric: str, summary: str) -> Verdict:
    code, flat = findings.mean("hierarchical", metric), findings.mean("flat", metric)
    return decided(code == 1, f"{summary}: hierarchical {code:.3f}, flat {flat:.3f}")


@STUDY.claim("The code, untrained, tells segment boundaries")
def judge_boundary(findings: Findings) -> Verdict:
    """Confirmed if every step over a boundary is larger than every other step."""
    return judge_exact(findings, "boundary", "area under the curve of the step size")


@STUDY.claim("The code, untrained, tells the order of two tokens")
def judge_order(findings: Findings) -> Verdict:
    """Confirmed if the slowest pair of channels, first of segments, then of offsets, orders all pairs."""
    return judge_exact(findings, "order", "share of pairs in the right order")


@STUDY.claim("S may be the segments' mean length")
def judge_mean_length(findings: Findings) -> Verdict:
    """Confirmed if F1 of same segment and of boundary are .95 or more at every CV; conditional if at some."""
    same, boundary = (
        {name: findings.curve(name, metric).mean() for name in DRAWN} for metric in ("same_f1", "boundary_f1")
    )
    by_truth = min(findings.curve(name, "same_told_f1").min() for name in DRAWN)
    summary = "; ".join(f"{name} {same[name]:.2f}, {boundary[name]:.2f}" for name in DRAWN)
    summary = f"F1 of same segment and of boundary: {summary}; with the true segments at least {by_truth:.2f}"
    good = {name: bool(min(same[name], boundary[name]) >= 0.95) for name in DRAWN}
    return each(good, summary, "the lengths' {}, or the true segments are known", join=", ")


@STUDY.claim("With S the mean length, sentences of real text are told apart")
def judge_sentences(findings: Findings) -> Verdict:
    """Confirmed if the 95 % intervals over articles of both F1 are above .75."""
    same, border = (interval(findings.values("sentences", f"{name}_f1")[0]) for name in ("same", "boundary"))
    articles = len(findings.values("sentences", "same_f1")[0])
    summary = f"F1 {same.written('{:.2f}')} of same sentence, {border.written('{:.2f}')} of boundary "
    summary += f"({articles} articles, CV {findings.mean('sentences', 'spread'):.2f})"
    return decided(above(same, 0.75) and above(border, 0.75), summary)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(9, 3.3))
    part, whole = (findings.curve("hierarchical", metric) for metric in ("matched", "matched_full"))
    flat = findings.curve("flat", "matched")
    lines(left, MATCHED, {"flat": flat, "segment's part": part, "whole hierarchical vector": whole})
    left.set(xlabel="distance of the pair (tokens)", ylabel="area under the curve, same segment")
    left.set(title=f"{LENGTH} tokens, segments of {SEGMENT}: exact", xticks=MATCHED, ylim=(-0.03, 1.03))
    left.legend(loc="lower left")
    for metric, style, colour in (("same", "o-", COLOURS[0]), ("boundary", "s--", COLOURS[1])):
        for variants, mark, label in ((DRAWN, style, metric), (["sentences"], "D", f"{metric}, news")):
            at = [findings.mean(variant, "spread") for variant in variants]
            scores = [findings.curve(variant, f"{metric}_f1") for variant in variants]
            mean = [values.mean() for values in scores]
            deviation = [values.std() for values in scores]
            right.errorbar(at, mean, deviation, fmt=mark, color=colour, capsize=3, label=label)
    count, articles = (findings.curve(variant, "same_f1").size for variant in ("CV=0.0", "sentences"))
    right.set(xlabel="CV of the segments' lengths", ylabel="F1 with S = the mean length", ylim=(0, 1.05))
    right.set(title=f"mean and SD: {count} drawn texts per CV, {articles} articles")
    right.legend(loc="center right", bbox_to_anchor=(1, 0.35))
    return figure
