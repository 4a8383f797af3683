"""Contacts of a folded chain: when a bias of the attention scores finds pairs that are far apart on the chain and near in space.

The score of a pair is a content term, x_i W x_j, and a bias. What the residues say is weak: both ends of a contact share a random
vector, in noise. A bias of the separation |i - j| can help as far as contact hangs on separation, and no further: P(s), the share of
pairs at separation s that touch, falls for a random walk, has bumps for a solenoid, and is flat for a compact globule.
A contact map helps where it is this chain's and was known before: the map that is to be found is leakage, and makes any score perfect.

The chains are generated, and denser in contacts than proteins are.
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.encodings import Contacts, Relative, Slopes
from vnait.studies.figures import bars, lines, panels
from vnait.studies.training import descend
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

LENGTH, CHANNELS, RATE, NOISE = 80, 48, 0.12, 1.0
NEAR, FAR = 6, 24  # separations from which pairs are scored at all, and from which they count as far
TURN = 28  # residues
KEPT, FALSE = 0.5, 0.03  # of a noisy map: contacts that it has, and other pairs
SLOPE = 2  # the head of ALiBi's eight whose slope is 1/8
FAMILIES = {
    "globule": "compact: a walk that forgets where it was within some ten steps",
    "walk": "a random walk",
    "solenoid": f"a coil of {TURN} residues a turn",
}
ANOTHER = "another's map"
BIASES = {
    "none": "no bias",
    "table": "a learned number a separation",
    "slope": "ALiBi, 1/8 a residue",
    "map": f"a map of the chain that has {KEPT:.0%} of its contacts and {FALSE:.0%} of the others, times a learned number",
    ANOTHER: "such a map of another chain of the family",
    "table alone": "a learned number a separation, no content",
    "true map": "the contacts that are to be found, times a learned number",
}


def traces(family: str, count: int, random: Generator) -> Tensor:
    """Where the residues are in space: (count, 80, 3)."""
    steps = torch.randn(count, LENGTH, 3, generator=random)
    if family == "walk":
        return steps.cumsum(1)
    if family == "globule":
        away = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
        return (0.75**away * (away >= 0)) @ steps
    angle = 2 * torch.pi * torch.arange(LENGTH) / TURN
    return torch.stack([4 * angle.cos(), 4 * angle.sin(), angle / 2], -1) + 2 * steps


def touching(family: str, count: int, random: Generator) -> Tensor:
    """Contacts (count, 80, 80), True and False: the nearest 12 % of the pairs that are far on the chain, and what is as near."""
    trace = traces(family, count, random)
    distance = torch.cdist(trace, trace)
    return distance <= distance[:, pairs(FAR)].quantile(RATE, dim=1)[:, None, None]


def pairs(least: int) -> Tensor:
    """(80, 80), True at i, j with j - i >= least."""
    return torch.ones(LENGTH, LENGTH).triu(least).bool()


def contents(contacts: Tensor, random: Generator) -> Tensor:
    """What the residues say (count, 80, 48): a vector that both ends of a contact share, a pair of them its own, and noise."""
    count = len(contacts)
    said = NOISE * torch.randn(count, LENGTH, CHANNELS, generator=random)
    for channel in range(CHANNELS):
        shared = torch.randn(count, LENGTH, LENGTH, generator=random).triu(1) * contacts
        said[..., channel] += (shared + shared.mT).sum(-1)
    return F.normalize(said, dim=-1) * CHANNELS**0.5


def noisy(contacts: Tensor, random: Generator) -> Tensor:
    """Maps that were known before: some of the contacts and some of the other pairs, symmetric."""
    draw = torch.rand(contacts.shape, generator=random).triu(1)
    draw = draw + draw.mT
    return torch.where(contacts, draw < KEPT, draw < FALSE).float()


class Scorer(nn.Module):
    """Scores (B, 80, 80) of pairs: content (B, 80, 48) times W, and g times a bias (B, 80, 80), or a learned table of separations."""

    def __init__(self, bias: str) -> None:
        super().__init__()
        self.weight = None if bias == "table alone" else nn.Parameter(torch.zeros(CHANNELS, CHANNELS))
        self.table = Relative(num_heads=1, max_distance=LENGTH - 1) if "table" in bias else None
        self.gain = nn.Parameter(torch.ones(())) if "map" in bias else 1.0
        self.level = nn.Parameter(torch.tensor(-2.0))

    def forward(self, content: Tensor, told: Tensor) -> Tensor:
        scores = self.level + self.gain * told
        if self.weight is not None:
            scores = scores + content @ (self.weight + self.weight.T) @ content.mT
        return scores if self.table is None else scores + self.table(places()).bias[:, 0]


def places() -> Tensor:
    return torch.arange(LENGTH, dtype=torch.float32)[None, :, None]


def fixed(bias: str, contacts: Tensor, random: Generator) -> Tensor:
    """What a bias that is not learned says of every chain's pairs."""
    if bias == "slope":
        return Slopes(num_heads=8)(places()).bias[:, SLOPE].expand(len(contacts), -1, -1)
    if "map" not in bias:
        return torch.zeros(contacts.shape)
    maps = contacts.float() if bias == "true map" else noisy(contacts, random)
    maps = maps.roll(1, 0) if bias == ANOTHER else maps
    told = [Contacts(num_heads=1, contacts=one)(places()).bias[0, 0] for one in maps]
    return torch.stack(told).detach()


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    family, bias = arm.split(", ")
    random = Generator().manual_seed(seed)
    contacts = touching(family, budget.samples, random)
    content, told = contents(contacts, random), fixed(bias, contacts, random)
    train = 3 * budget.samples // 4
    torch.manual_seed(seed)
    model, scored = Scorer(bias), pairs(NEAR)

    def loss(step: int) -> Tensor:
        scores = model(content[:train], told[:train])[:, scored]
        return F.binary_cross_entropy_with_logits(scores, contacts[:train][:, scored].float())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=0.05)
    with torch.no_grad():
        scores = model(content[train:], told[train:])
    return {**measured(scores, contacts[train:]), "frequency": frequency(contacts)}


def measured(scores: Tensor, contacts: Tensor) -> Metrics:
    """Of far pairs: average precision, area under the curve; and the attention of a row that goes to its far contacts."""
    far, scored = pairs(FAR), pairs(NEAR)
    attention = scores.masked_fill(~(scored | scored.T), -torch.inf).softmax(-1)
    truth, found = contacts[:, far].flatten().numpy(), scores[:, far].flatten().numpy()
    return {
        "precision": float(average_precision_score(truth, found)),
        "area": float(roc_auc_score(truth, found)),
        "mass": float((attention * (contacts & (far | far.T))).sum(-1).mean()),
    }


def frequency(contacts: Tensor) -> list[float]:
    """P(s), s = 1 ... 79."""
    return [float(contacts.diagonal(step, 1, 2).double().mean()) for step in range(1, LENGTH)]


def gains(found: Findings, bias: str, metric: str = "precision") -> dict[str, float]:
    """What a bias adds to content alone, a family each."""
    return {family: found.difference(f"{family}, {bias}", f"{family}, none", metric).mean for family in FAMILIES}


def listed(found: Findings, biases: tuple[str, ...], metric: str) -> str:
    """Means, a family each."""
    shown = []
    for family in FAMILIES:
        means = [f"{found.mean(f'{family}, {bias}', metric):.3f}" for bias in biases]
        shown.append(f"{family} {' / '.join(means)}")
    return ", ".join(shown)


def judged(good: list[str], families: list[str], said: str, condition: str) -> Verdict:
    """Confirmed where all families are good, refuted where none is."""
    rest = [family for family in families if family not in good]
    if not rest or not good:
        return Verdict("confirmed" if good else "refuted", said)
    return Verdict("conditional", said, f"{condition} ({', '.join(good)}; not: {', '.join(rest)})")


@claim("A learned relative bias clearly improves far contacts", source="004, protein structure")
def judge_table(found: Findings) -> Verdict:
    """Confirmed where AP rises by .02 or more in every family, refuted where in none, else conditional."""
    said = f"AP none / table: {listed(found, ('none', 'table'), 'precision')}; AUC of a table alone: "
    said += listed(found, ("table alone",), "area")
    good = [family for family, gain in gains(found, "table").items() if gain >= 0.02]
    return judged(good, list(FAMILIES), said, "contacts hang on the separation")


@claim("Favouring near residues still lets the far contacts be found", source="004, protein structure")
def judge_near(found: Findings) -> Verdict:
    """Confirmed where in every family AP falls by less than .02 and attention on far contacts stays at .6 of what it was, refuted
    where in none, else conditional.
    """
    said = f"AP none / slope: {listed(found, ('none', 'slope'), 'precision')}; attention on far contacts: "
    said += f"{listed(found, ('none', 'slope'), 'mass')}; AUC: {listed(found, ('none', 'slope'), 'area')}"
    mass = {bias: [found.mean(f"{family}, {bias}", "mass") for family in FAMILIES] for bias in ("none", "slope")}
    kept = [after >= 0.6 * before for before, after in zip(*mass.values(), strict=True)]
    gain = gains(found, "slope").items()
    good = [family for (family, more), attends in zip(gain, kept, strict=True) if more > -0.02 and attends]
    return judged(good, list(FAMILIES), said, "the chain is one of some families")


@claim("The bias works by turning attention to far contacts", source="004, protein structure")
def judge_attention(found: Findings) -> Verdict:
    """Confirmed where attention on them rises in every family whose AP the table raises by .02, refuted where in none."""
    said = f"attention on far contacts none / table / slope: {listed(found, ('none', 'table', 'slope'), 'mass')}"
    helped = [family for family, gain in gains(found, "table").items() if gain >= 0.02]
    good = [family for family in helped if gains(found, "table", "mass")[family] > 0]
    said += f"; of {len(helped)} families that the table helps, attention rises in {len(good)}"
    return judged(good, helped, said, "many far pairs of some separation touch")


@claim("A bias that starts from a contact map clearly improves far contacts", source="004, protein structure")
def judge_map(found: Findings) -> Verdict:
    """Refuted where a noisy map of the chain adds less than .15 of AP in a family, confirmed where any chain's adds as much, else
    conditional.
    """
    own, other = gains(found, "map"), gains(found, ANOTHER)
    said = f"AP none / its own noisy map / another's: {listed(found, ('none', 'map', ANOTHER), 'precision')}"
    said += f"; the true map of a globule: {found.mean('globule, true map', 'precision'):.3f}, a leak"
    if min(own.values()) < 0.15:
        return Verdict("refuted", said)
    if min(other.values()) >= 0.15:
        return Verdict("confirmed", said)
    return Verdict("conditional", said, "the map is this chain's own, and was known before")


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1)
    far = {family: found.curve(f"{family}, none", "frequency").mean(0) for family in FAMILIES}
    lines(left, range(1, LENGTH), far, marker="")
    left.axvline(FAR, color="gray", lw=1)
    left.set(ylabel="share of pairs that touch, P(s)", ylim=(0, 1), title="the families' contacts")
    left.set(xlabel="separation on the chain (residues); far from the grey line on")
    left.legend()
    shown = [bias for bias in BIASES if bias != "true map"]
    own = {bias: [found.values(f"{family}, {bias}", "precision") for family in FAMILIES] for bias in shown}
    bars(right, list(FAMILIES), own)
    right.axhline(RATE, color="black", ls=":", lw=1)
    right.set(ylabel="average precision (far pairs)", ylim=(0, 0.85))
    right.set(title=f"mean, a dot a seed (n={len(found.values('walk, none', 'area'))}); chance dotted")
    right.legend(ncols=3, loc="upper center")
    return figure


STUDY = Study(
    name="contacts",
    subject="Contacts of a chain that are far apart on it: relative biases and contact maps",
    data=f"generated chains of {LENGTH} residues of three families, a quarter held out; {RATE:.0%} of far pairs touch; "
    f"far: {FAR} residues or more apart",
    measure="average precision (AP) and area under the curve of far pairs, held-out chains; attention on far contacts",
    smallest=".02 of AP, .15 for a map; .6 of the attention",
    arms={
        f"{family}, {bias}": f"{told}; {what}"
        for family, told in FAMILIES.items()
        for bias, what in BIASES.items()
        if bias != "true map" or family == "globule"
    },
    controls=[
        Control(
            says="another chain's map changes AP by .02 at most on globules",
            arm=f"globule, {ANOTHER}",
            mechanism="globule, map",
            fails=lambda found: abs(gains(found, ANOTHER)["globule"]) <= 0.02,
        ),
        Control(
            says="a table alone is at chance on globules, where contacts do not hang on the separation (.05)",
            arm="globule, table alone",
            mechanism="walk, table alone",
            fails=lambda found: abs(found.mean("globule, table alone", "area") - 0.5) <= 0.05,
        ),
    ],
    claims=[
        judge_table,
        judge_near,
        judge_attention,
        judge_map,
    ],
    full=Budget(seeds=5, steps=100, samples=120),
    quick=Budget(seeds=3, steps=70, samples=80),
    run=run,
    draw=draw,
)
