"""Contacts of a chain that are far apart on it: relative biases and contact maps.

The score of a pair is a content term, x_i W x_j, and a bias. The content is a weak signal: both ends of a
contact share a random vector, in noise. A bias of the separation |i - j| helps only as far as contacts depend
on separation: P(s), the share of pairs at separation s in contact, falls for a random walk, has peaks for a
solenoid, and is flat for a compact globule. A contact map helps if it is this chain's own and was known
before; using the map that is to be predicted is leakage and makes any score perfect. The chains are
generated, and have more contacts than proteins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.positions.encodings import AlibiBias, ShawBias
from vnait.positions.encodings.shared import At, check_inside, checked_heads, neighbours
from vnait.positions.injection import Injection
from vnait.shared.values import full
from vnait_lab.kit import Bars, Figure, Lines, decided, descend, each, figure
from vnait_lab.studies.parts.proteins import FAR, NEAR, noisy
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

LENGTH, CHANNELS, NOISE = 80, 48, 1.0
RATE = 0.12  # share of far pairs in contact, more than in real proteins
TURN = 28  # residues per turn of the solenoid
KEPT, FALSE = 0.5, 0.03  # shares of contacts, and of other pairs, in a noisy map
FAMILIES = {
    "globule": "compact: a walk that forgets where it was within some ten steps",
    "walk": "a random walk",
    "solenoid": f"a coil of {TURN} residues a turn",
}
PLACES = torch.arange(LENGTH, dtype=torch.float32)[None, :, None]  # (1, 80, 1)
SLOPE = 2  # the head of ALiBi's eight whose slope is 1/8
ANOTHER = "another's map"
BIASES = {
    "none": "no bias",
    "table": "a learned number a separation",
    "slope": "ALiBi, 1/8 a residue",
    "map": f"a map of the chain that has {KEPT:.0%} of its contacts and {FALSE:.0%} of the others, times a "
    "learned number",
    ANOTHER: "such a map of another chain of the family",
    "table alone": "a learned number a separation, no content",
    "true map": "the contacts that are to be found, times a learned number",
}
STUDY = Study.of(
    __name__,
    source="004, protein structure",
    data=f"generated chains of {LENGTH} residues of three families, a quarter held out; {RATE:.0%} of far "
    f"pairs are in contact; far: at least {FAR} residues apart",
    measure="average precision (AP) and area under the curve of far pairs, held-out chains; attention on "
    "far contacts",
    smallest=".02 of AP, .15 for a map; .6 of the attention",
    variants={
        f"{family}, {bias}": f"{shape}; {what}"
        for family, shape in FAMILIES.items()
        for bias, what in BIASES.items()
        if bias != "true map" or family == "globule"
    },
    full=Budget(seeds=5, steps=100, samples=120),
    quick=Budget(seeds=3, steps=70, samples=80),
)


class Contacts(nn.Module):
    """A learned number per head for every pair of L positions, bilinear between integers; bias, (B, H, T, T).

    contacts    (L, L), the pairs that touch: 0 and 1, or probabilities; each head starts at `start` times it

    Coordinates in [0, L - 1]. A map of the structure that is to be predicted is leakage, and makes any score
    perfect: take one that was known before, such as a noisy prior of the same chain. Source: the studies of
    this project, B9.

    >>> contacts = Contacts(num_heads=1, contacts=[[0, 1], [1, 0]], start=2.0).requires_grad_(False)
    >>> contacts(torch.tensor([[[0.0], [1.0], [0.5]]])).bias[0, 0]
    tensor([[0., 2., 1.],
            [2., 0., 1.],
            [1., 1., 1.]])
    """

    def __init__(
        self,
        *,
        num_heads: int,
        contacts: Float[Tensor, "L L"] | Sequence[Sequence[float]],
        start: float = 1.0,
    ) -> None:
        super().__init__()
        # No buffer: a model that is built on the meta device would lose it.
        self.contacts, self.start = _checked_map(torch.as_tensor(contacts, device="cpu")), start
        self.weight = nn.Parameter(torch.empty(checked_heads(num_heads), *self.contacts.shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """`start` times the contact map, for every head."""
        with torch.no_grad():
            self.weight.copy_(self.start * self.contacts)

    def forward(self, at: At) -> Injection:
        place, size = at[..., 0], len(self.contacts)
        check_inside(
            place,
            size,
            lambda wrong: (
                f"a coordinate of {wrong:g} is outside the map of L={size} positions (0 to "
                f"{size - 1}); cut the chain, or give a larger map."
            ),
        )
        left, right, part = neighbours(place, size)
        table = full(self.weight)
        part = part.to(table.dtype)
        rows = torch.lerp(table[:, left], table[:, right], part[..., None])  # (H, B, T, L)
        pairs = (len(table), *place.shape, place.shape[1])
        low, high = (rows.gather(-1, column[None, :, None].expand(pairs)) for column in (left, right))
        return Injection(bias=torch.lerp(low, high, part[:, None, :]).transpose(0, 1))

    def extra_repr(self) -> str:
        return f"num_heads={len(self.weight)}, L={len(self.contacts)}, start={self.start:g}"


def _checked_map(contacts: Tensor) -> Float[Tensor, "L L"]:
    if contacts.ndim != 2 or contacts.shape[0] != contacts.shape[1] or not len(contacts):
        raise ValueError(
            f"a contact map of shape {tuple(contacts.shape)}; give (L, L), a row and a column per position."
        )
    contacts = contacts.detach().to(torch.float32, copy=True)
    if not contacts.isfinite().all():
        raise ValueError("the contact map has numbers that are not finite; give 0 for unknown pairs.")
    return contacts


def traces(family: str, count: int, random: Generator) -> Tensor:
    """The coordinates of the residues: (count, 80, 3)."""
    steps = torch.randn(count, LENGTH, 3, generator=random)
    if family == "walk":
        return steps.cumsum(1)
    if family == "globule":
        away = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
        return (0.75**away * (away >= 0)) @ steps
    angle = 2 * torch.pi * torch.arange(LENGTH) / TURN
    return torch.stack([4 * angle.cos(), 4 * angle.sin(), angle / 2], -1) + 2 * steps


def touching(family: str, count: int, random: Generator) -> Tensor:
    """Contacts (count, 80, 80): all pairs within the distance of the nearest 12 % of far pairs."""
    trace = traces(family, count, random)
    distance = torch.cdist(trace, trace)
    return distance <= distance[:, pairs(FAR)].quantile(RATE, dim=1)[:, None, None]


def pairs(least: int) -> Tensor:
    """(80, 80), True if j - i >= least."""
    return torch.ones(LENGTH, LENGTH).triu(least).bool()


def frequency(contacts: Tensor) -> list[float]:
    """P(s) for s = 1 ... 79."""
    return [float(contacts.diagonal(step, 1, 2).double().mean()) for step in range(1, LENGTH)]


def contents(contacts: Tensor, random: Generator) -> Tensor:
    """Residue vectors (count, 80, 48): the sum of one random vector per contact, shared by both ends, plus
    noise.
    """
    count = len(contacts)
    content = NOISE * torch.randn(count, LENGTH, CHANNELS, generator=random)
    for channel in range(CHANNELS):  # one channel at a time, to save memory
        shared = torch.randn(count, LENGTH, LENGTH, generator=random).triu(1) * contacts
        content[..., channel] += (shared + shared.mT).sum(-1)
    return F.normalize(content, dim=-1) * CHANNELS**0.5


def measured(scores: Tensor, contacts: Tensor) -> Metrics:
    """Average precision and area under the curve of far pairs, and the attention of a row on its far
    contacts.
    """
    far, scored = pairs(FAR), pairs(NEAR)
    attention = scores.masked_fill(~(scored | scored.T), -torch.inf).softmax(-1)
    truth = contacts[:, far].flatten().numpy()
    scored_pairs = scores[:, far].flatten().numpy()
    return {
        "precision": float(average_precision_score(truth, scored_pairs)),
        "area": float(roc_auc_score(truth, scored_pairs)),
        "mass": float((attention * (contacts & (far | far.T))).sum(-1).mean()),
    }


class Scorer(nn.Module):
    """Scores (B, 80, 80) of pairs: a bilinear form of the content (B, 80, 48), plus a gain times a fixed bias
    (B, 80, 80), plus a learned table of separations.
    """

    def __init__(self, bias: str) -> None:
        super().__init__()
        self.weight = None if bias == "table alone" else nn.Parameter(torch.zeros(CHANNELS, CHANNELS))
        self.table = ShawBias(num_heads=1, max_distance=LENGTH - 1) if "table" in bias else None
        self.gain = nn.Parameter(torch.ones(())) if "map" in bias else 1.0
        self.level = nn.Parameter(torch.tensor(-2.0))

    def forward(self, content: Tensor, bias: Tensor) -> Tensor:
        scores = self.level + self.gain * bias
        if self.weight is not None:
            scores = scores + content @ (self.weight + self.weight.T) @ content.mT
        if self.table is None:
            return scores
        ahead = self.table(PLACES).dense().bias[:, 0].triu(1)  # contacts have no direction
        return scores + ahead + ahead.mT


def fixed(bias: str, contacts: Tensor, random: Generator) -> Tensor:
    """The bias (count, 80, 80) that is not learned: a slope, a map, or zero."""
    if bias == "slope":
        return AlibiBias(num_heads=8)(PLACES).dense().bias[:, SLOPE].expand(len(contacts), -1, -1)
    if "map" not in bias:
        return torch.zeros(contacts.shape)
    maps = contacts.float() if bias == "true map" else noisy(contacts, KEPT, FALSE, random)
    maps = maps.roll(1, 0) if bias == ANOTHER else maps
    return torch.stack([Contacts(num_heads=1, contacts=known)(PLACES).bias[0, 0] for known in maps]).detach()


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    family, bias = variant.split(", ")
    random = Generator().manual_seed(seed)
    contacts = touching(family, budget.samples, random)
    content = contents(contacts, random)
    known = fixed(bias, contacts, random)
    train = 3 * budget.samples // 4
    torch.manual_seed(seed)
    model, scored = Scorer(bias), pairs(NEAR)

    def loss(step: int) -> Tensor:
        scores = model(content[:train], known[:train])[:, scored]
        return nn.functional.binary_cross_entropy_with_logits(scores, contacts[:train][:, scored].float())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=0.05)
    with torch.no_grad():
        scores = model(content[train:], known[train:])
    return {**measured(scores, contacts[train:]), "frequency": frequency(contacts)}


def gains(findings: Findings, bias: str, metric: str = "precision") -> dict[str, float]:
    """The gain of a bias over content alone, per family."""
    return {
        family: findings.difference(f"{family}, {bias}", f"{family}, none", metric).mean
        for family in FAMILIES
    }


def by_family(findings: Findings, metric: str, *biases: str) -> str:
    """Means per family, of each bias."""
    means = {family: [findings.mean(f"{family}, {bias}", metric) for bias in biases] for family in FAMILIES}
    return ", ".join(f"{family} {' / '.join(f'{mean:.3f}' for mean in row)}" for family, row in means.items())


def judged(good: Mapping[str, bool], summary: str, condition: str) -> Verdict:
    """Confirmed if all families are good, refuted if none is, else conditional."""
    rest = ", ".join(family for family, holds in good.items() if not holds)
    return each(good, summary, f"{condition} ({{}}; not: {rest})", join=", ")


@STUDY.control(
    "on globules another chain's map changes AP by at most .02",
    variant=f"globule, {ANOTHER}",
    mechanism="globule, map",
)
def another_map_adds_nothing(findings: Findings) -> bool:
    return abs(gains(findings, ANOTHER)["globule"]) <= 0.02


@STUDY.control(
    "on globules, whose contacts do not depend on separation, a table is within .05 of chance",
    variant="globule, table alone",
    mechanism="walk, table alone",
)
def table_is_at_chance(findings: Findings) -> bool:
    return abs(findings.mean("globule, table alone", "area") - 0.5) <= 0.05


@STUDY.claim("A learned relative bias clearly improves far contacts")
def judge_table(findings: Findings) -> Verdict:
    """Confirmed if AP rises by .02 or more in every family, refuted if in none, else conditional."""
    summary = f"AP none / table: {by_family(findings, 'precision', 'none', 'table')}; AUC of a table alone: "
    summary += by_family(findings, "area", "table alone")
    good = {family: gain >= 0.02 for family, gain in gains(findings, "table").items()}
    return judged(good, summary, "contacts depend on the separation")


@STUDY.claim("Favouring near residues still lets the far contacts be found")
def judge_near(findings: Findings) -> Verdict:
    """Confirmed if in every family AP falls by less than .02 and attention on far contacts keeps .6 of its
    value, refuted if in none, else conditional.
    """
    precision, mass, area = (
        by_family(findings, metric, "none", "slope") for metric in ("precision", "mass", "area")
    )
    summary = f"AP none / slope: {precision}; attention on far contacts: {mass}; AUC: {area}"
    good = {
        family: gain > -0.02
        and findings.mean(f"{family}, slope", "mass") >= 0.6 * findings.mean(f"{family}, none", "mass")
        for family, gain in gains(findings, "slope").items()
    }
    return judged(good, summary, "the chain is of certain families")


@STUDY.claim("The bias works by turning attention to far contacts")
def judge_attention(findings: Findings) -> Verdict:
    """Confirmed if attention on them rises in every family whose AP the table raises by .02, refuted if in
    none.
    """
    rises = gains(findings, "table", "mass")
    good = {family: rises[family] > 0 for family, gain in gains(findings, "table").items() if gain >= 0.02}
    summary = "attention on far contacts none / table / slope: "
    summary += by_family(findings, "mass", "none", "table", "slope")
    summary += f"; of {len(good)} families that the table helps, attention rises in {sum(good.values())}"
    return judged(good, summary, "many far pairs at some separation are in contact")


@STUDY.claim("A bias that starts from a contact map clearly improves far contacts")
def judge_map(findings: Findings) -> Verdict:
    """Refuted if a noisy map of the chain adds less than .15 of AP in a family, confirmed if another chain's
    map adds as much, else conditional.
    """
    known, another = (min(gains(findings, bias).values()) for bias in ("map", ANOTHER))
    precision = by_family(findings, "precision", "none", "map", ANOTHER)
    summary = f"AP none / its own noisy map / another's: {precision}; the true map of a globule: "
    summary += f"{findings.mean('globule, true map', 'precision'):.3f}, a leak"
    condition = "the map is this chain's own and was known before"
    return decided(min(known, another) >= 0.15, summary, refuted=known < 0.15, condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    share = {family: findings.curve(f"{family}, none", "frequency") for family in FAMILIES}
    separation, label = "separation on the chain (residues)", "share of pairs in contact, P(s)"
    precision = {
        bias: {family: findings.curve(f"{family}, {bias}", "precision") for family in FAMILIES}
        for bias in BIASES
        if bias != "true map"
    }
    look: dict[str, Any] = {"at_y": {"chance": RATE}, "ylim": (0, 0.85)}
    return figure(
        Lines(
            range(1, LENGTH),
            share,
            separation,
            label,
            band=True,
            at_x={"far from here": FAR},
            look={"marker": ""},
        ),
        Bars(precision, "average precision (far pairs)", upright=True, **look),
    )
