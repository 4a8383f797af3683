"""Far contacts of real proteins: relative biases, contact maps and elastic coordinates.

The score of a pair of residues is a content term, a learned bilinear form of the letters around both, and a
bias: a learned number per separation or per share of the chain, ALiBi's slope, or a noisy map of the chain.
Every protein is a test protein once, but those of development, which are always in training; steps and
learning rate were chosen on these. Proteins that are alike in sequence were dropped; some of those that are
left may still have the same fold.

Figures are means over proteins, of each protein's mean over seeds, and intervals are over proteins: a seed
draws the folds, the initial weights and the maps, but no new proteins. Those of one fold share a model, which
intervals leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import Span
from vnait.positions.encodings import AlibiBias, ShawBias
from vnait.results.colours import COLOURS
from vnait.shared.statistics import Interval, interval
from vnait_lab.kit import Figure, above, below, clear, decided, descend
from vnait_lab.studies.figures import panels
from vnait_lab.studies.parts.proteins import FAR, LETTERS, NEAR, Chain, chains, noisy
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict, data_folder

FOLDS, DEVELOPED = 5, 6  # folds of test proteins; every sixth protein is one of development
SEEN, DIM, BATCH, RATE = 5, 16, 8, 0.003
REACH = 128  # residues; larger separations share a number
SLOPE = 2  # the head of ALiBi's eight whose slope is 1/8
KEPT, FALSE = 0.5, 0.01  # shares of contacts, and of other pairs, in a noisy map
RANGES = torch.tensor([NEAR, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256])  # where ranges of counts begin
SMALLEST, CLEAR, MASS = 0.005, 0.05, 0.6
RIBOSOME = "6zu5"
ANOTHER = "another's map"
# Kyte and Doolittle 1982, table 2, in the order of LETTERS.
WATER = torch.tensor(
    [
        *(1.8, 2.5, -3.5, -3.5, 2.8, -0.4, -3.2, 4.5, -3.9, 3.8),
        *(1.9, -3.5, -1.6, -3.5, -4.5, -0.8, -0.7, 4.2, -0.9, -1.3),
    ]
)
MODELS = {
    "none": "no bias",
    "table": f"a learned number per separation up to {REACH} residues, and one for the rest",
    "slope": "ALiBi, 1/8 per residue",
    "share": "vnait with S = 100 i / n, a learned number per difference",
    "elastic": "vnait with S learned from the letters, a learned number per difference",
    "table alone": "the table without content",
    "map": f"a map of the chain that has {KEPT:.0%} of its contacts and {FALSE:.0%} of the other pairs, "
    "times a learned number",
    ANOTHER: "such a map of the next longer protein",
    "shuffled": "no bias; the letters of every chain are shuffled",
}
RULES = {
    "counted": "no model: the share of training pairs in contact in a range of separations",
    "water": "no model: the product of both residues' hydrophobicity, a mean of 5",
    "by hand": "no model: the product of these two",
    "map alone": "no model: the noisy map of the chain",
}
STUDY = Study.of(
    __name__,
    source="004, protein structure",
    data="chains of the Protein Data Bank, 60 to 400 residues, without homologs; contact: alpha carbons "
    f"nearer than 8 angstrom; far: at least {FAR} residues apart; every protein tested once per seed, in "
    f"{FOLDS} folds, but a sixth, on which settings were chosen",
    measure="average precision (AP) and area under the curve (AUC) of far pairs per protein, intervals over "
    "proteins; precision of the first L/5 pairs; attention on far contacts",
    smallest=".005 of AP, .05 for a map; .6 of the attention",
    variants={**MODELS, **RULES},
    full=Budget(seeds=3, steps=200, samples=400),
    quick=Budget(seeds=1, steps=20, samples=18),
    needs="data:proteins package:biopython",
)


@lru_cache(maxsize=1)
def proteins() -> list[Chain]:
    """All chains, in an order that has nothing to do with their structure."""
    return chains(data_folder("proteins"))


def folds(count: int, random: Generator) -> tuple[list[int], list[Int[Tensor, " N"]]]:
    """The proteins of development, and the folds of all others."""
    development = list(range(0, count, DEVELOPED))
    rest = torch.tensor([place for place in range(count) if place % DEVELOPED])
    return development, list(rest[torch.randperm(len(rest), generator=random)].tensor_split(FOLDS))


class Scorer(nn.Module):
    """Scores (T, T), symmetric, of the pairs of a chain: a bilinear form of the vectors of 5 letters, and a
    bias.
    """

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.variant = variant
        self.vectors = nn.Linear(SEEN * len(LETTERS), DIM)
        self.weight = nn.Parameter(torch.zeros(DIM + 1, DIM + 1))
        self.level = nn.Parameter(torch.tensor(-4.0))
        # In units of 10: log(.5 / .01) is 4, which steps of a small learning rate would not reach.
        self.gain = nn.Parameter(torch.tensor(0.1))
        spans = {"share": "uniform", "elastic": "content"}
        self.span = Span(source=spans[variant], dim=DIM) if variant in spans else None
        tables = {"table": REACH, "table alone": REACH, "share": 100, "elastic": 100}
        self.bias: nn.Module | None = None
        if variant in tables:
            self.bias = ShawBias(num_heads=1, max_distance=tables[variant])
        elif variant == "slope":
            self.bias = AlibiBias(num_heads=8)

    def forward(self, chain: Chain, known: Float[Tensor, "T T"]) -> Float[Tensor, "T T"]:
        letters = F.one_hot(chain.letters, len(LETTERS)).float()
        x = self.vectors(F.pad(letters, (0, 0, SEEN // 2, SEEN // 2)).unfold(0, SEEN, 1).flatten(1))
        scores = self.level + 10 * self.gain * known
        if self.variant != "table alone":
            content = F.pad(x, (0, 1), value=1.0)  # each residue's own share of contacts, too
            scores = scores + content @ (self.weight + self.weight.T) @ content.T
        if self.bias is None:
            return scores
        at = chain.places[None, :, None].float()
        if self.span is not None:
            at = self.span(x[None], torch.ones(1, len(x), dtype=torch.bool), at)
        bias = self.bias(at).dense().bias[0, SLOPE if self.variant == "slope" else 0]
        return scores + (bias + bias.T) / 2  # contacts have no direction


def known(variant: str, sample: Sequence[Chain], random: Generator) -> list[Float[Tensor, "T T"]]:
    """The map of each chain that is not learned; zeros but in the variants with maps."""
    maps = [noisy(chain.contacts, KEPT, FALSE, random) for chain in sample]
    if variant in ("map", "map alone"):
        return maps
    blank = [torch.zeros_like(chain) for chain in maps]
    if variant == ANOTHER:
        order = sorted(range(len(sample)), key=lambda place: len(maps[place]))
        for place, longer in zip(order, [*order[1:], order[-2]], strict=True):
            size = min(len(maps[place]), len(maps[longer]))
            blank[place][:size, :size] = maps[longer][:size, :size]
    return blank


def shuffled(chain: Chain, random: Generator) -> Chain:
    return chain._replace(letters=chain.letters[torch.randperm(len(chain.letters), generator=random)])


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    sample = proteins()[: budget.samples]
    development, tested = folds(len(sample), Generator().manual_seed(seed))
    results: dict[int, dict[str, float]] = {}
    for fold in tested:
        test = fold.tolist()
        train = sorted({*development, *torch.cat(tested).tolist()} - {*test})
        results |= dict(zip(test, scored(variant, seed, train, test, budget), strict=True))
    order = sorted(results)
    metrics: Metrics = {
        name: [round(results[place][name], 4) for place in order] for name in results[order[0]]
    }
    if variant == "counted":
        metrics["ribosomal"] = [float(RIBOSOME in sample[place].source) for place in order]
        metrics["length"] = [len(sample[place].letters) for place in order]
        metrics["frequency"] = [frequencies([sample[place]]).tolist() for place in order]
    return metrics


def scored(
    variant: str, seed: int, train: Sequence[int], test: Sequence[int], budget: Budget
) -> list[dict[str, float]]:
    """The measures of each test protein, after training on others."""
    random = Generator().manual_seed(seed)
    sample = proteins()[: budget.samples]
    maps = known(variant, sample, random)
    sample = [shuffled(chain, random) for chain in sample] if variant == "shuffled" else sample
    learn = [sample[place] for place in train]
    if variant in RULES:
        shares = frequencies(learn)
        return [measured(ruled(variant, sample[place], maps[place], shares), sample[place]) for place in test]
    model = trained(variant, seed, learn, [maps[place] for place in train], budget)
    with torch.no_grad():
        return [measured(model(sample[place], maps[place]), sample[place]) for place in test]


def trained(
    variant: str, seed: int, sample: Sequence[Chain], maps: Sequence[Tensor], budget: Budget
) -> Scorer:
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    model = Scorer(variant)

    def wrong(place: int) -> Tensor:
        scores, chain = model(sample[place], maps[place]), sample[place]
        which = chain.apart >= NEAR
        return F.binary_cross_entropy_with_logits(scores[which], chain.contacts[which].float())

    def loss(step: int) -> Tensor:
        drawn = torch.randint(len(sample), (BATCH,), generator=random).tolist()
        return torch.stack([wrong(place) for place in drawn]).mean()  # chains count alike, as when measured

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=RATE, weight_decay=0.01)
    return model.eval()


def frequencies(sample: Sequence[Chain]) -> Float[Tensor, " ranges"]:
    """P(s), the share of pairs in contact in each range of separations; 0 where there is no pair."""
    pairs, contacts = torch.zeros(len(RANGES)), torch.zeros(len(RANGES))
    for chain in sample:
        place = torch.bucketize(chain.apart, RANGES, right=True) - 1
        for counts, which in ((pairs, place >= 0), (contacts, (place >= 0) & chain.contacts)):
            counts += torch.bincount(place[which], minlength=len(RANGES))
    return contacts / pairs.clamp(min=1)


def ruled(variant: str, chain: Chain, known: Tensor, shares: Tensor) -> Float[Tensor, "T T"]:
    """Scores without a model."""
    if variant == "map alone":
        return known
    water = (WATER[chain.letters] - WATER.min()) / (WATER.max() - WATER.min())
    near = F.avg_pool1d(water[None], SEEN, 1, SEEN // 2, count_include_pad=False)[0]
    counted = shares[(torch.bucketize(chain.apart, RANGES, right=True) - 1).clamp(min=0)]
    both = near[:, None] * near
    return {"counted": counted, "water": both, "by hand": counted * both}[variant]


def measured(scores: Float[Tensor, "T T"], chain: Chain) -> dict[str, float]:
    """Of far pairs: average precision, area under the curve, and the precision of the first T / 5; and the
    attention of a residue on its far contacts, of all that are 6 residues away or more.
    """
    ranking, truth = scores[chain.far], chain.contacts[chain.far]
    attention = scores.masked_fill(chain.apart < NEAR, -torch.inf).softmax(-1).nan_to_num()
    far = (chain.apart >= FAR) & chain.contacts
    first = truth[ranking.argsort(descending=True)[: len(scores) // 5]]
    return {
        "precision": float(average_precision_score(truth.numpy(), ranking.numpy())),
        "area": float(roc_auc_score(truth.numpy(), ranking.numpy())),
        "first": float(first.double().mean()),
        "mass": float((attention * far).sum(-1).mean()),
        "chance": float(truth.double().mean()),
    }


def over(findings: Findings, variant: str, metric: str = "precision") -> Float[Tensor, " proteins"]:
    """Of each protein the mean over seeds."""
    return torch.tensor(findings.curve(variant, metric).mean(0))


def gain(findings: Findings, variant: str, against: str = "none", metric: str = "precision") -> Interval:
    """`variant` minus `against`, paired by protein, with the interval over proteins."""
    return interval((over(findings, variant, metric) - over(findings, against, metric)).tolist())


def apart_from_ribosome(findings: Findings, variant: str, against: str = "none") -> Interval:
    """The same without the proteins of the ribosome, which fold around its RNA."""
    rest = torch.tensor(findings.curve("counted", "ribosomal")[0]) == 0
    return interval((over(findings, variant) - over(findings, against))[rest].tolist())


def listed(findings: Findings, metric: str, *variants: str) -> str:
    """Means, such as "none 0.021, table 0.030"."""
    return findings.listed(variants, metric, "{:.3f}")


def gained(findings: Findings, variant: str, against: str = "none") -> str:
    form = "{:+.4f}"
    rest = apart_from_ribosome(findings, variant, against)
    lead = gain(findings, variant, against).written(form)
    return f"{variant} minus {against} {lead}, without the ribosome {rest.written(form)}"


@STUDY.control(
    "with shuffled letters AUC is less than .55, and .03 or more below that of the letters",
    variant="shuffled",
    mechanism="none",
)
def letters_fail(findings: Findings) -> bool:
    area = findings.mean("shuffled", "area")
    return area < 0.55 and gain(findings, "shuffled", "none", "area").mean <= -0.03


@STUDY.control(
    "another protein's map gains less than a fifth of what its own does", variant=ANOTHER, mechanism="map"
)
def map_of_another_fails(findings: Findings) -> bool:
    return gain(findings, ANOTHER).mean < gain(findings, "map").mean / 5


@STUDY.claim("A learned relative bias clearly improves far contacts of real proteins")
def judge_table(findings: Findings) -> Verdict:
    """AP of `table` minus `none`, paired by protein: confirmed if the interval is above .005, refuted if it
    is below .005.
    """
    words = f"AP {listed(findings, 'precision', 'none', 'table', 'table alone', *RULES)} (chance "
    words += f"{float(over(findings, 'none', 'chance').mean()):.3f}); {gained(findings, 'table')}; AUC "
    words += f"{listed(findings, 'area', 'none', 'table', 'table alone')}; attention on far contacts "
    words += listed(findings, "mass", "none", "table")
    return clear([gain(findings, "table")], words, least=SMALLEST)


@STUDY.claim("Favouring near residues still lets far contacts of real proteins be found")
def judge_near(findings: Findings) -> Verdict:
    """Confirmed if AP of `slope` minus `none`, paired by protein, has an interval above -.005 and attention
    on far contacts keeps .6 of its value; conditional if AP alone does; refuted if the interval is below
    -.005.
    """
    share = findings.mean("slope", "mass") / findings.mean("none", "mass")
    words = f"AP {listed(findings, 'precision', 'none', 'slope')}; {gained(findings, 'slope')}; "
    words += f"attention on far contacts {listed(findings, 'mass', 'none', 'slope')}, {share:.2f} of it"
    lead = gain(findings, "slope")
    ranks, behind = above(lead, -SMALLEST), below(lead, -SMALLEST)
    condition = "pairs are ranked, and not read by attention" if ranks else ""
    return decided(ranks and share >= MASS, words, refuted=behind, condition=condition)


@STUDY.claim("A bias that starts from a noisy contact map clearly improves far contacts of real proteins")
def judge_map(findings: Findings) -> Verdict:
    """AP of `map` minus `none`, paired by protein: refuted if the interval is not above .05. Else conditional
    if that of another protein's map is below .05, confirmed if it is above.
    """
    words = f"AP {listed(findings, 'precision', 'none', 'map', 'map alone', ANOTHER)}; "
    words += f"{gained(findings, 'map')}; {gained(findings, 'map', 'map alone')}; "
    words += f"{gained(findings, ANOTHER)}; precision of the first L/5 "
    words += listed(findings, "first", "none", "map", "map alone")
    lead, another = gain(findings, "map"), gain(findings, ANOTHER)
    helps = above(lead, CLEAR)
    condition = "the map is this chain's own and was known before" if below(another, CLEAR) else ""
    return decided(helps and above(another, CLEAR), words, refuted=not helps, condition=condition)


@STUDY.claim(
    "Learned coordinates find far contacts of real proteins better than the index",
    source="this project: elastic coordinates against index ones",
)
def judge_elastic(findings: Findings) -> Verdict:
    """AP of `elastic` minus `table`, paired by protein: confirmed if the interval is above 0, refuted if it
    is below.
    """
    words = f"AP {listed(findings, 'precision', 'table', 'share', 'elastic')}; "
    words += f"{gained(findings, 'elastic', 'table')}; {gained(findings, 'elastic', 'share')}; "
    words += gained(findings, "share", "table")
    return clear([gain(findings, "elastic", "table")], words)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (left, middle, right) = panels(1, 1.2, 1.2, size=(14, 4.2))
    shares = 100 * findings.curve("counted", "frequency")[0]
    # Whether a chain has enough such pairs for a share.
    long = findings.curve("counted", "length")[0][:, None] > 1.25 * RANGES.numpy()
    shown = [place for place in range(len(RANGES)) if long[:, place].sum() >= 10]
    low, median, high = np.transpose(
        [np.quantile(shares[long[:, place], place], [0.25, 0.5, 0.75]) for place in shown]
    )
    starts = RANGES[shown].numpy()
    left.plot(starts, median, label="median")
    left.fill_between(starts, low, high, alpha=0.2, lw=0, label="middle half of the proteins")
    left.axvline(FAR, color="gray", lw=1, label="far: right of here")
    left.set(xscale="log", ylim=(0, None), ylabel="pairs in contact (%)", title="contacts by separation")
    left.set_xticks(starts, [str(start) for start in starts.tolist()], fontsize=7)
    left.minorticks_off()
    left.set_xlabel("separation (residues; from here to the next mark)")
    left.legend()

    kinds = {"no model": RULES, "content and no bias": ("none", "shuffled")}
    colours = dict(zip((*kinds, "with a bias"), COLOURS, strict=False))
    variants = sorted(STUDY.variants, key=lambda variant: -findings.mean(variant, "precision"))
    for row, variant in enumerate(variants):
        kind = next((kind for kind, members in kinds.items() if variant in members), "with a bias")
        bar(middle, row, interval(over(findings, variant).tolist()), colours[kind])
    for kind, colour in colours.items():
        middle.plot([], [], "s", color=colour, mfc=colour, label=kind)
    chance = findings.mean("none", "chance")
    middle.axvline(chance, color="black", ls=":", lw=1, label="chance")
    middle.set_yticks(range(len(variants)), variants)
    middle.invert_yaxis()
    count, seeds = len(over(findings, "none")), len(findings.values("none", "area"))
    middle.set(xscale="log", xlabel="average precision of far pairs (log scale)")
    middle.set_xticks([0.02, 0.05, 0.1, 0.2, 0.4], ["0.02", "0.05", "0.1", "0.2", "0.4"])
    middle.minorticks_off()
    middle.set_title(f"mean and 95 % over {count} proteins ({seeds} seeds)")
    middle.legend(loc="lower right")

    rows = ("table", "share", "elastic", "slope", ANOTHER, "shuffled")
    for row, variant in enumerate(rows):
        bar(right, row - 0.17, gain(findings, variant), COLOURS[0], "all" if not row else None)
        rest = apart_from_ribosome(findings, variant)
        bar(right, row + 0.17, rest, COLOURS[1], "without the ribosome" if not row else None)
    right.axvline(0, color="black", lw=1)
    right.axvspan(-SMALLEST, SMALLEST, color="gray", alpha=0.15, lw=0, label="too small to matter")
    right.set_yticks(range(len(rows)), rows)
    right.invert_yaxis()
    right.set(xlabel="average precision minus that without a bias", title="paired by protein; mean and 95 %")
    right.legend(loc="upper left")
    return figure


def bar(axes: Axes, row: float, of: Interval, colour: str, label: str | None = None) -> None:
    """A mark with its interval."""
    axes.plot(of.bounds, [row, row], color=colour, marker="", ls="-", lw=2)
    axes.plot([of.mean], [row], color=colour, marker="o", ls="", mfc=colour, label=label)
