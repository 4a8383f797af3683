"""Introns of variable length inserted between real splice junctions.

A piece of DNA has two real junctions of 60 letters each and random letters between them, from 0 to 60 in
training and up to 480 in the test. It holds an intron if a donor comes first and then an acceptor. Where the
acceptor comes first, or one of them is missing, it does not. Knowing all junctions but not their order is
enough for three quarters. By hand, one adds the log-odds of the letters around a donor and around an acceptor
after it (weight matrices).
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait_lab.kit import Bars, Figure, Stack, clear, descend, each, figure
from vnait_lab.studies.parts.dna import LETTERS, letters
from vnait_lab.studies.splicing import junctions
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

WINDOW, HALF = 60, 30  # letters of a real window; its junction is in the middle
SEEN = 9  # letters that a token is made of
TRAINED, TESTED = 60, (30, 240, 480)  # inserted letters: up to, and at
DIM, HEADS, BATCH = 32, 4, 32
SMALLEST = 0.05
DONOR, ACCEPTOR = (-3, 7), (-15, 2)  # letters around the junction that weight matrices read
SITES = ("donor", "acceptor", "between")  # of mutations
INDEX = ("rope", "alibi", "vnait-uniform")  # their coordinates are the place
VARIANTS = {
    "none": "no positions",
    "rope": "the index, rotations",
    "alibi": "the index, a bias of the distance",
    "vnait-uniform": "vnait with S = 100 i / n",
    "vnait": "coordinates learned from the letters",
    "by hand": "no model: weight matrices of a donor and of an acceptor after it",
}
STUDY = Study.of(
    __name__,
    source="004, splicing",
    data="splice (UCI), junctions of held-out genes; 200 pieces for each length, half of them with an intron",
    measure="accuracy (knowing all junctions but not their order: 75 %); change of the logit under mutation",
    smallest="5 points of accuracy; 5 times the change of other letters",
    variants=VARIANTS,
    full=Budget(seeds=3, steps=800, samples=200),
    quick=Budget(seeds=2, steps=40, samples=40),
    needs="data:splice",
)


@lru_cache(maxsize=2)
def windows(part: str) -> list[Int[Tensor, "N 60"]]:
    """Real windows around donors, around acceptors, and without a junction."""
    x, _, labels = junctions(part)
    return [x[labels == label] for label in range(3)]


def pieces(
    count: int, inserted: int, part: str, random: Generator
) -> tuple[Int[Tensor, "N T"], Int[Tensor, " N"]]:
    """Pieces of 120 + `inserted` letters, and their kind: 0 an intron, 1 the acceptor first, 2 no acceptor, 3
    no donor. Half are introns, and a quarter have the acceptor first.
    """
    real = windows(part)

    def drawn(label: Tensor) -> Tensor:
        places = zip(label.tolist(), torch.rand(count, generator=random).tolist(), strict=True)
        return torch.stack([real[which][int(at * len(real[which]))] for which, at in places])

    kind = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3])[torch.randint(8, (count,), generator=random)]
    first = torch.tensor([0, 1, 0, 2])[kind]
    second = torch.tensor([1, 0, 2, 1])[kind]
    between = torch.randint(len(LETTERS), (count, inserted), generator=random)
    return torch.cat([drawn(first), between, drawn(second)], 1), kind


class Detector(Stack):
    """Letters (N, T) -> the evidence of an intron (N,), from windows of 9 letters."""

    def __init__(self, variant: str) -> None:
        super().__init__(
            variant,
            vectors=nn.Sequential(nn.Linear(SEEN * len(LETTERS), DIM), nn.GELU()),
            outputs=1,
            dim=DIM,
            num_heads=HEADS,
            wide=2,
            max_length=2 * WINDOW + max(TESTED),
            mean_length=2 * WINDOW + TRAINED / 2,
        )

    def forward(self, x: Tensor) -> Tensor:
        sides = (0, 0, SEEN // 2, SEEN // 2)
        seen = F.pad(F.one_hot(x, len(LETTERS)).float(), sides).unfold(1, SEEN, 1).flatten(2)
        return self.pooled(seen)[:, 0]


def trained(variant: str, seed: int, steps: int) -> Detector:
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    model = Detector(variant)

    def loss(step: int) -> Tensor:
        inserted = int(torch.randint(TRAINED + 1, (), generator=random))
        x, kind = pieces(BATCH, inserted, "train", random)
        return F.binary_cross_entropy_with_logits(model(x), (kind == 0).float())

    descend(model.parameters(), loss, steps=steps, learning_rate=5e-3, weight_decay=0.01)
    return model.eval()


@STUDY.runs
@torch.no_grad()
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    if variant == "by hand":
        return by_hand(seed, budget.samples)
    with torch.enable_grad():
        model = trained(variant, seed, budget.steps)
    metrics: Metrics = {}
    for inserted in TESTED:
        x, kind = pieces(budget.samples, inserted, "test", Generator().manual_seed(seed))
        evidence = torch.cat([model(part) for part in x.split(16)])
        metrics |= right(evidence > 0, kind, inserted)
        if inserted == TESTED[0]:
            metrics |= mutated(model, x[kind == 0], evidence[kind == 0], inserted)
    return metrics


def right(answer: Bool[Tensor, " N"], kind: Int[Tensor, " N"], inserted: int) -> Metrics:
    """Accuracy, and the share of pieces with the acceptor first of which no intron is expected."""
    return {
        f"{inserted} inserted": float((answer == (kind == 0)).double().mean()),
        f"{inserted} inserted, acceptor first": float((~answer[kind == 1]).double().mean()),
    }


def mutated(model: Detector, x: Int[Tensor, "N T"], evidence: Float[Tensor, " N"], inserted: int) -> Metrics:
    """The mean change of the evidence where two letters of introns are mutated."""
    sites = {
        "donor": (HALF, "CA"),  # its GT
        "acceptor": (WINDOW + inserted + HALF - 2, "CT"),  # its AG
        "between": (WINDOW + inserted // 2, "CA"),
    }
    changes = {}
    for name, (at, motif) in sites.items():
        y = x.clone()
        y[:, at : at + len(motif)] = letters(motif)
        after = torch.cat([model(part) for part in y.split(16)])
        changes[f"change, {name}"] = float((after - evidence).mean())
    return changes


def by_hand(seed: int, count: int) -> Metrics:
    """The largest sum of log-odds of a donor and of an acceptor after it, against a threshold found on pieces
    of training.
    """
    odds = [log_odds(label, reach) for label, reach in enumerate((DONOR, ACCEPTOR))]

    def evidence(x: Tensor) -> Tensor:
        donor, acceptor = (
            F.conv1d(F.one_hot(x, len(LETTERS)).double().mT, weights[None])[:, 0] for weights in odds
        )
        apart = DONOR[1] - DONOR[0]  # an acceptor's letters begin where a donor's have ended
        reached = acceptor.shape[1] - apart
        return (donor[:, :reached].cummax(1).values + acceptor[:, apart:]).amax(1)

    random = Generator().manual_seed(seed)
    known, kind = pieces(count, TRAINED // 2, "train", random)
    scores = evidence(known)
    accuracy = ((scores[:, None] > scores) == (kind == 0)[:, None]).double().mean(0)
    threshold = scores[accuracy.argmax()]
    metrics: Metrics = {}
    for inserted in TESTED:
        x, kind = pieces(count, inserted, "test", Generator().manual_seed(seed))
        metrics |= right(evidence(x) > threshold, kind, inserted)
    return metrics


def log_odds(label: int, reach: tuple[int, int]) -> Float[Tensor, "letters places"]:
    """log of the share of each letter at these places of junctions over that at windows without one."""
    around, others = windows("train")[label], windows("train")[2]
    place = slice(HALF + reach[0], HALF + reach[1])
    counts = F.one_hot(around[:, place], len(LETTERS)).double().sum(0) + 1
    background = F.one_hot(others, len(LETTERS)).double().mean((0, 1))
    return (counts / counts.sum(-1, keepdim=True) / background).log().T


def accuracies(findings: Findings, variant: str) -> str:
    """Mean accuracies, such as "rope 80, 75 and 60 %"."""
    shown = [f"{100 * findings.mean(variant, f'{inserted} inserted'):.0f}" for inserted in TESTED]
    return f"{variant} {', '.join(shown[:-1])} and {shown[-1]} %"


@STUDY.control(
    "without positions accuracy is 5 points or more below rope's with 30 letters inserted",
    variant="none",
    mechanism="rope",
)
def no_positions_lose(findings: Findings) -> bool:
    return findings.mean("none", "30 inserted") <= findings.mean("rope", "30 inserted") - SMALLEST


@STUDY.claim("Positions decide whether a donor or an acceptor comes first")
def judge_order(findings: Findings) -> Verdict:
    """With 30 letters inserted, a method's accuracy is above that of `none`, paired by seed, with an interval
    above 5 points. Confirmed if it is of all methods, conditional if of some.
    """
    words = f"right answers with {', '.join(map(str, TESTED))} letters inserted: "
    words += "; ".join(accuracies(findings, name) for name in VARIANTS)
    leads = findings.differences((*INDEX, "vnait"), "none", f"{TESTED[0]} inserted")
    return each({name: lead.bounds[0] > SMALLEST for name, lead in leads.items()}, words, "the method is {}")


@STUDY.claim("Learned coordinates keep the answer better than the index when introns grow eightfold")
def judge_longer(findings: Findings) -> Verdict:
    """Accuracy with 480 letters inserted, `vnait` minus the best method of the index there, paired by seed.
    Confirmed if the interval is above 0, refuted if it is below.
    """
    longest = f"{TESTED[-1]} inserted"
    best = findings.best(INDEX, longest)
    lead = findings.difference("vnait", best, longest)
    words = f"{accuracies(findings, 'vnait')}, {accuracies(findings, best)}; the difference at {TESTED[-1]}: "
    return clear([lead], words + lead.times(100).written("{:+.1f}", " points"))


@STUDY.claim(
    "In-silico mutagenesis shows that the answer depends on the GT and the AG of real junctions",
)
def judge_cause(findings: Findings) -> Verdict:
    """In every seed, mutating the donor's GT and the acceptor's AG each lowers the evidence at least 5 times
    as much as mutating two letters between them changes it. Confirmed if it does for all methods, conditional
    if for some.
    """
    changes = {
        name: [findings.curve(name, f"change, {site}") for site in SITES] for name in (*INDEX, "vnait")
    }
    good = {
        name: bool((-donor >= 5 * abs(between)).all() and (-acceptor >= 5 * abs(between)).all())
        for name, (donor, acceptor, between) in changes.items()
    }
    words = "; ".join(
        f"{name} {', '.join(f'{change.mean():+.1f}' for change in sites)}" for name, sites in changes.items()
    )
    words = f"change of the evidence by donor, acceptor, between: {words}"
    return each(good, words, "the method is {}")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    shares = {f"{count} inserted": findings.curves(VARIANTS, f"{count} inserted") for count in TESTED}
    models = [name for name in VARIANTS if name != "by hand"]
    changes = {site: findings.curves(models, f"change, {site}") for site in SITES}
    without = {"without the order": 75}
    right = Bars(shares, "right answers (%)", percent=True, at_x=without, xlim=(40, 100))
    return figure(right, Bars(changes, "mean change of the evidence (logit), two letters of introns mutated"))
