"""Dog bites man: attention and word order without positions.

Without positions a bidirectional Transformer is equivariant: permuted tokens give permuted outputs, and so
the mean over them is invariant. Its single outputs are not, as they depend on their own token. A causal mask
breaks the symmetry: a token sees how many tokens precede it, and from the second layer on the order of the
prefix matters.
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait_lab.studies.figures import bars, panels
from vnait_lab.studies.parts.training import Reader, descend
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

NOUNS, VERBS = 20, 8
END = NOUNS + VERBS  # the answer is read here: at a noun, its own identity would reveal the answer
BATCH = 64
# name: method, causal, layers
MODELS = {
    "none": ("none", False, 2),
    "none, causal, 1 layer": ("none", True, 1),
    "none, causal, 2 layers": ("none", True, 2),
    "sinusoidal": ("sinusoidal", False, 2),
    "sinusoidal, causal": ("sinusoidal", True, 2),
}


def reader(arm: str, seed: int, outputs: int = NOUNS) -> Reader:
    method, causal, layers = MODELS[arm]
    torch.manual_seed(seed)
    return Reader(method, vocabulary=END + 1, outputs=outputs, num_layers=layers, causal=causal)


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    return {**symmetries(arm, seed), "accuracy": accuracy(arm, seed, budget)}


@torch.no_grad()
def symmetries(arm: str, seed: int) -> Metrics:
    """The largest changes of an untrained model's outputs under permutations of the tokens, in float64."""
    model = reader(arm, seed).double()
    random = Generator().manual_seed(seed)
    ids = torch.randint(NOUNS + VERBS, (8, 9), generator=random)
    new = torch.randperm(9, generator=random)
    prefix = torch.cat([torch.randperm(8, generator=random), torch.tensor([8])])
    plain, permuted, before = model(ids), model(ids[:, new]), model(ids[:, prefix])
    return {
        "equivariance": float((permuted - plain[:, new]).abs().max()),
        "pooled": float((permuted.mean(1) - plain.mean(1)).abs().max()),
        "tokenwise": float((permuted - plain).abs().max()),
        "last": float((before[:, -1] - plain[:, -1]).abs().max()),
    }


def accuracy(arm: str, seed: int, budget: Budget) -> float:
    """The accuracy of "who bites?", the first of two nouns, on held-out pairs in both orders."""
    random = Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(NOUNS))
    pairs = pairs[torch.randperm(len(pairs), generator=random)]
    train, test = pairs[50:], pairs[:50]
    model = reader(arm, seed)

    def loss(step: int) -> Tensor:
        ids = sentences(train, BATCH, random)
        return F.cross_entropy(model(ids)[:, -1], ids[:, 0])

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=2e-3)
    ids = sentences(test, 2_000, random)
    with torch.no_grad():
        logits = model.eval()(ids)[:, -1]
    either = logits.gather(1, ids[:, [0, 2]])  # of the two nouns alone
    return float((either[:, 0] > either[:, 1]).double().mean())


def sentences(pairs: Tensor, count: int, random: Generator) -> Tensor:
    """Noun, verb, noun, end (count, 4), both orders of a pair equally often."""
    own = pairs[torch.randint(len(pairs), (count,), generator=random)]
    own = torch.where(torch.rand(count, 1, generator=random) < 0.5, own, own.flip(1))
    verbs = NOUNS + torch.randint(VERBS, (count, 1), generator=random)
    return torch.cat([own[:, :1], verbs, own[:, 1:], torch.full_like(verbs, END)], 1)


@claim(
    "Without positions the output does not depend on the order of the tokens",
    source="003, why positions; 000, section 1.1",
)
def judge_invariant(found: Findings) -> Verdict:
    """Confirmed if no output changes by more than 1e-12, conditional if only the pooled output does not."""
    pooled, moved = found.most("none", "pooled"), found.most("none", "tokenwise")
    off = found.most("none", "equivariance")
    summary = f"pooled outputs change by {pooled:.0e}, single ones by {moved:.1f} "
    summary += f"(they move with their token, to {off:.0e})"
    if pooled > 1e-12:
        return Verdict("refuted", summary)
    if moved <= 1e-12:
        return Verdict("confirmed", summary)
    return Verdict("conditional", summary, "the output is the pooled one")


@claim(
    "Without positions 'dog bites man' and 'man bites dog' can't be told apart",
    source="003, why positions; 000, section 1.1",
)
def judge_blind(found: Findings) -> Verdict:
    """Confirmed if every stack without positions stays within 5 points of chance, conditional if some do."""
    scores = {arm: found.interval(arm, "accuracy") for arm in MODELS if arm.startswith("none")}
    summary = "; ".join(f"{arm}: {100 * score.mean:.1f} %" for arm, score in scores.items())
    summary += f"; sinusoidal: {100 * found.mean('sinusoidal', 'accuracy'):.1f} %"
    blind = [arm for arm, score in scores.items() if abs(score.mean - 0.5) <= 0.05]
    if len(blind) == len(scores):
        return Verdict("confirmed", summary)
    if not blind:
        return Verdict("refuted", summary)
    return Verdict("conditional", summary, f"the stack is: {'; '.join(blind)}")


def draw(found: Findings) -> Figure:
    figure, (axes,) = panels(1, size=(7, 2.8))
    scores = [100 * found.curve(arm, "accuracy") for arm in found.arms]
    bars(axes, found.arms, {"right": scores}, across=True)
    axes.axvline(50, color="black", ls=":", lw=1)
    axes.set(xlabel="right agent, held-out noun pairs (%), chance dotted", xlim=(0, 102))
    axes.set(title=f"mean, one dot per seed (n={len(scores[0])})")
    return figure


STUDY = Study(
    name="order",
    subject="Dog bites man: attention and word order without positions",
    data="generated sentences: noun, verb, noun; 20 nouns, 8 verbs, 50 of 190 pairs held out",
    measure="largest change of outputs under a permutation (float64); accuracy of the agent, chance 50 %",
    smallest="1e-12 for an identity; 5 points around chance",
    arms={
        arm: f"{method}, {'causal' if causal else 'bidirectional'}, {layers} layers"
        for arm, (method, causal, layers) in MODELS.items()
    },
    controls=[
        Control(
            statement="without positions bidirectional attention stays within 5 points of chance",
            arm="none",
            mechanism="sinusoidal",
            fails=lambda found: abs(found.mean("none", "accuracy") - 0.5) <= 0.05,
        )
    ],
    claims=[judge_invariant, judge_blind],
    full=Budget(seeds=3, steps=400),
    quick=Budget(seeds=2, steps=250),
    run=run,
    draw=draw,
)
