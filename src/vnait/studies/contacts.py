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
from torch import Generator, Tensor, nn

from vnait.encodings import Contacts, Relative, Slopes
from vnait.studies.figures import bands, bars, panels
from vnait.studies.parts import chains
from vnait.studies.parts.chains import CHANNELS, FALSE, FAMILIES, FAR, KEPT, LENGTH, NEAR, RATE, pairs
from vnait.studies.parts.training import descend
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

PLACES = torch.arange(LENGTH, dtype=torch.float32)[None, :, None]  # (1, 80, 1)
SLOPE = 2  # the head of ALiBi's eight whose slope is 1/8
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
        return scores if self.table is None else scores + self.table(PLACES).bias[:, 0]


def fixed(bias: str, contacts: Tensor, random: Generator) -> Tensor:
    """What a bias that is not learned says of every chain's pairs."""
    if bias == "slope":
        return Slopes(num_heads=8)(PLACES).bias[:, SLOPE].expand(len(contacts), -1, -1)
    if "map" not in bias:
        return torch.zeros(contacts.shape)
    maps = contacts.float() if bias == "true map" else chains.noisy(contacts, random)
    maps = maps.roll(1, 0) if bias == ANOTHER else maps
    return torch.stack([Contacts(num_heads=1, contacts=one)(PLACES).bias[0, 0] for one in maps]).detach()


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    family, bias = arm.split(", ")
    random = Generator().manual_seed(seed)
    contacts = chains.touching(family, budget.samples, random)
    content, told = chains.contents(contacts, random), fixed(bias, contacts, random)
    train = 3 * budget.samples // 4
    torch.manual_seed(seed)
    model, scored = Scorer(bias), pairs(NEAR)

    def loss(step: int) -> Tensor:
        scores = model(content[:train], told[:train])[:, scored]
        return nn.functional.binary_cross_entropy_with_logits(scores, contacts[:train][:, scored].float())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=0.05)
    with torch.no_grad():
        scores = model(content[train:], told[train:])
    return {**chains.measured(scores, contacts[train:]), "frequency": chains.frequency(contacts)}


def gains(found: Findings, bias: str, metric: str = "precision") -> dict[str, float]:
    """What a bias adds to content alone, a family each."""
    return {family: found.difference(f"{family}, {bias}", f"{family}, none", metric).mean for family in FAMILIES}


def listed(found: Findings, biases: tuple[str, ...], metric: str) -> str:
    """Means, a family each."""
    means = {family: [f"{found.mean(f'{family}, {bias}', metric):.3f}" for bias in biases] for family in FAMILIES}
    return ", ".join(f"{family} {' / '.join(own)}" for family, own in means.items())


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
    kept = {name: found.mean(f"{name}, slope", "mass") / found.mean(f"{name}, none", "mass") for name in FAMILIES}
    good = [name for name, gain in gains(found, "slope").items() if gain > -0.02 and kept[name] >= 0.6]
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
    share = {family: found.curve(f"{family}, none", "frequency") for family in FAMILIES}
    bands(left, range(1, LENGTH), share, marker="")
    left.axvline(FAR, color="gray", lw=1)
    left.set(ylabel="share of pairs that touch, P(s)", ylim=(0, 1), title="mean and range over seeds")
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
    claims=[judge_table, judge_near, judge_attention, judge_map],
    full=Budget(seeds=5, steps=100, samples=120),
    quick=Budget(seeds=3, steps=70, samples=80),
    run=run,
    draw=draw,
)
