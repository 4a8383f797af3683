"""Splicing: does attention go from the donor to the branch point, and does the answer hang on it?

Generated introns: a donor GTRAGT, a branch point CTAAC 42 to 62 letters downstream, a tract of C and T, an AG. An intron is functional
unless its donor is broken or its branch point is missing; one to three decoys CTAAC stand too near the donor, so that to count motifs
is not enough: distance is needed. One layer of attention reads letters through a window of 9 and answers at the donor.
That attention goes somewhere says little; that the answer changes with what stands there (in-silico mutagenesis) says more.
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from vnait.studies.figures import bars, panels
from vnait.studies.parts.introns import Introns, introns, junctions, replaced
from vnait.studies.parts.splicer import Splicer, fit
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

TRAINED = ("relative", "learned table", "none")
MUTATED = ("branch", "donor", "decoys", "control")
SCRAMBLED = "ACTCA"
POINT = 3  # of CTAAC, the adenine that branches
SEEN = range(-7, 6)  # of that adenine, the places whose window of 9 sees a letter of the motif


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    torch.manual_seed(seed)
    if arm == "junctions":
        return classified(budget, random)
    train, test = introns(budget.samples, random), introns(1000, random)
    model = Splicer("relative" if arm == "untrained" else arm)
    if arm != "untrained":
        fit(model, train.x, train.donor, train.label, budget.steps, random)
    return mutated(model, test)


@torch.no_grad()
def mutated(model: Splicer, test: Introns) -> Metrics:
    """Accuracy; and of functional introns, where the donor looks and how the logit changes with a mutation."""
    logits, _ = model(test.x, test.donor)
    own = Introns(*(part[test.label == 1] for part in test))
    every = torch.arange(len(own.x))
    cases = {
        "branch": (every, own.branch, SCRAMBLED),
        "donor": (every, own.donor, "CA"),
        "decoys": (*own.decoys.nonzero().T, SCRAMBLED),
        "control": (every, own.branch + 9, SCRAMBLED),
    }
    texts = {"plain": own.x, **{name: replaced(own.x, *case) for name, case in cases.items()}}
    told = {name: model(x, own.donor) for name, x in texts.items()}
    score = {name: answer[:, 1] - answer[:, 0] for name, (answer, _) in told.items()}
    weights, seen = told["plain"][1], told["branch"][1]
    point = own.branch + POINT
    head = int(mass(weights, point).argmax())
    around = point[:, None] + torch.arange(-25, 26)
    return {
        "accuracy": float((logits.argmax(1) == test.label).double().mean()),
        "called": float((score["plain"] > 0).double().mean()),
        "called, branch": float((score["branch"] > 0).double().mean()),
        **{f"change, {name}": float((score[name] - score["plain"]).mean()) for name in cases},
        "mass": float(mass(weights, point)[head]),
        "mass beside": float(mass(weights, point + len(SEEN))[head]),
        "mass, scrambled": float(mass(seen, point)[head]),
        "profile": [part[:, head].gather(1, around).mean(0).tolist() for part in (weights, seen)],
    }


def mass(weights: Tensor, point: Tensor) -> Tensor:
    """The mean attention (H,) on the places that see a motif whose adenine is at `point`."""
    places = point[:, None] + torch.tensor(SEEN)
    return weights.gather(2, places[:, None].expand(-1, weights.shape[1], -1)).sum(2).mean(0)


def classified(budget: Budget, random: Generator) -> Metrics:
    """Real windows: is their middle a donor, an acceptor or neither?"""
    model = Splicer("relative", outputs=3)
    fit(model, *junctions("train"), budget.steps // 2, random)
    x, place, label = junctions("test")
    with torch.no_grad():
        right = model(x, place)[0].argmax(1) == label
    return {"accuracy": float(right.double().mean()), "most frequent": float((label == 2).double().mean())}


def spread(found: Findings, arm: str, metric: str) -> str:
    """The mean of all seeds with its 95 % interval, or from the least to the most where seeds are few."""
    mean, low, high = found.interval(arm, metric)
    low, high = (found.least(arm, metric), found.most(arm, metric)) if low is None or high is None else (low, high)
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


@claim("Transformers predict splicing signals, of a donor and a branch point far from it", source="004, genomics")
def judge_predict(found: Findings) -> Verdict:
    """Confirmed where .97 or more are right in every arm and seed, conditional where in some arms."""
    said = "right answers: " + ", ".join(f"{arm} {spread(found, arm, 'accuracy')}" for arm in TRAINED)
    good = [arm for arm in TRAINED if found.least(arm, "accuracy") >= 0.97]
    return Verdict.among(good, TRAINED, said, f"positions are told, here: {', '.join(good)}")


@claim("Transformers predict splice sites of real DNA", source="004, genomics", needs=["junctions"])
def judge_junctions(found: Findings) -> Verdict:
    """Confirmed where .9 or more of held-out junctions are right in every seed (the most frequent class: .54)."""
    least, often = found.least("junctions", "accuracy"), found.mean("junctions", "most frequent")
    said = f"right classes {spread(found, 'junctions', 'accuracy')}; the most frequent one: {often:.3f}"
    return Verdict("confirmed" if least >= 0.9 else "refuted", said)


@claim("A query at the donor attends to the branch point's adenine", source="004, genomics")
def judge_looks(found: Findings) -> Verdict:
    """Confirmed where the places that see it get 4 times the attention of as many beside them, or more, in every seed."""
    pairs = zip(found.values("relative", "mass"), found.values("relative", "mass beside"), strict=True)
    ratio = min(one / other for one, other in pairs)
    said = f"{spread(found, 'relative', 'mass')} of a head's attention on 13 places, {spread(found, 'relative', 'mass beside')} on "
    said += f"the 13 beside them; at least {ratio:.1f} times, untrained {untrained(found):.2f} times"
    return Verdict("confirmed" if ratio >= 4 else "refuted", said)


def untrained(found: Findings) -> float:
    return found.mean("untrained", "mass") / found.mean("untrained", "mass beside")


@claim("The attention signal vanishes where the branch point is mutated", source="004, genomics")
def judge_vanishes(found: Findings) -> Verdict:
    """Confirmed where no more is left than twice what lies beside it."""
    before, after, beside = (found.mean("relative", f"mass{what}") for what in ("", ", scrambled", " beside"))
    said = f"attention {before:.3f} before, {after:.3f} after the branch point is scrambled (-{100 * (1 - after / before):.0f} %); "
    said += f"beside it {beside:.3f}"
    return Verdict("confirmed" if after <= 2 * beside else "refuted", said)


@claim("In-silico mutagenesis shows that the answer hangs on donor and branch point", source="004, genomics")
def judge_cause(found: Findings) -> Verdict:
    """Confirmed where either mutation lowers the logit by 5 or more, and one of other letters changes it by .2 at most."""
    changes = {name: found.mean("relative", f"change, {name}") for name in MUTATED}
    said = "the logit changes by " + ", ".join(f"{value:.1f} ({name})" for name, value in changes.items())
    called = [found.mean("relative", metric) for metric in ("called", "called, branch")]
    said += f"; called functional: {called[0]:.2f}, without a branch point {called[1]:.2f}"
    still = max(map(abs, found.values("relative", "change, control")))
    moved = max(found.most("relative", f"change, {name}") for name in ("branch", "donor"))
    return Verdict("confirmed" if moved <= -5 and still <= 0.2 else "refuted", said)


def draw(found: Findings) -> Figure:
    figure, (left, middle, right) = panels(1, 1, 1, size=(12, 3.4))
    profiles = found.curve("relative", "profile")  # (seeds, intact or scrambled, places)
    for index, (name, style) in enumerate({"intact": "-", "scrambled": ":"}.items()):
        left.plot(range(-25, 26), profiles[:, index].T, color="black", ls=style, marker="", lw=1)[0].set_label(name)
    left.axvspan(min(SEEN) - 0.5, max(SEEN) + 0.5, color="gainsboro", label="sees the motif")
    left.set(xlabel="letters from the branch point's adenine", ylabel="attention of the donor")
    left.set_title("relative, a line a seed")
    left.legend(loc="upper right")
    bars(middle, MUTATED, {"": [found.values("relative", f"change, {name}") for name in MUTATED]}, across=True)
    middle.set(xticks=range(-15, 1, 5), xlabel="mean change of the logit", title="relative, by what is mutated")
    right_answers = [found.values(arm, "accuracy") for arm in [*TRAINED, "junctions"]]
    bars(right, [*TRAINED, "junctions (real)"], {"": right_answers}, across=True)
    right.axvline(0.75, color="black", ls=":", lw=1)
    right.set(xlabel="right answers (the donor alone: .75, dotted)", xlim=(0, 1.02))
    right.set_title(f"mean, a dot a seed (n={len(profiles)})")
    return figure


STUDY = Study(
    name="splicing",
    subject="Splicing: from the donor to the branch point",
    data="generated introns of 128 letters, half of them functional; real junctions (UCI), 60 letters",
    measure="right answers; attention on the 13 places that see the motif; change of the logit under mutation",
    smallest="4 times the attention beside it; 5 of the logit",
    arms={
        "relative": "a bias a distance",
        "learned table": "a vector a position",
        "none": "no positions",
        "untrained": "a bias a distance, not trained",
        "junctions": "a bias a distance; donor, acceptor or neither",
    },
    controls=[
        Control(
            says="without positions no more than .85 are right",
            arm="none",
            mechanism="relative",
            fails=lambda found: found.mean("none", "accuracy") <= 0.85,
        ),
        Control(
            says="untrained, the branch point gets .8 to 1.25 times the attention beside it",
            arm="untrained",
            mechanism="relative",
            fails=lambda found: 0.8 <= untrained(found) <= 1.25,
        ),
    ],
    claims=[judge_predict, judge_junctions, judge_looks, judge_vanishes, judge_cause],
    full=Budget(seeds=3, steps=1200, samples=4000),
    quick=Budget(seeds=2, steps=500, samples=4000),
    run=run,
    draw=draw,
    needs={"junctions": "data:splice"},
)
