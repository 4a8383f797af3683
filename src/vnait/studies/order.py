"""Dog bites man: what attention knows of order without being told positions.

Without positions a bidirectional Transformer is equivariant: permuted tokens give permuted outputs, and so the mean over them is
invariant. Its single outputs are not (a token still knows which token it is). A causal mask breaks the symmetry: a token sees how many
precede it, and from the second layer on a prefix's order comes through.
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.studies.figures import bars, panels
from vnait.studies.parts.training import Reader, descend
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

NOUNS, VERBS = 20, 8
END = NOUNS + VERBS  # the answer is read from it: a noun would know itself, and so the other one
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
    """What a permutation of the tokens changes, untrained, in float64."""
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
    """Who bites? The first of two nouns; pairs of the test are not trained on, and both orders of a pair are as frequent."""
    random = Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(NOUNS))[torch.randperm(NOUNS * (NOUNS - 1) // 2, generator=random)]
    train, test = pairs[50:], pairs[:50]
    model = reader(arm, seed)

    def loss(step: int) -> Tensor:
        ids = sentences(train, BATCH, random)
        return F.cross_entropy(model(ids)[:, -1], ids[:, 0])

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=2e-3)
    ids = sentences(test, 2_000, random)
    with torch.no_grad():
        logits = model.eval()(ids)[:, -1]
    either = logits.gather(1, ids[:, [0, 2]])  # of the two nouns alone: which is the agent?
    return float((either[:, 0] > either[:, 1]).double().mean())


def sentences(pairs: Tensor, count: int, random: Generator) -> Tensor:
    """Noun, verb, noun, end (count, 4), each pair in both orders alike."""
    own = pairs[torch.randint(len(pairs), (count,), generator=random)]
    own = torch.where(torch.rand(count, 1, generator=random) < 0.5, own, own.flip(1))
    verbs = NOUNS + torch.randint(VERBS, (count, 1), generator=random)
    return torch.cat([own[:, :1], verbs, own[:, 1:], torch.full_like(verbs, END)], 1)


@claim("Without positions the output does not hang on the order of the tokens", source="003, why positions")
def judge_invariant(found: Findings) -> Verdict:
    """Confirmed where no output changes by more than 1e-12, conditional where only the pooled one does not."""
    pooled, moved = found.most("none", "pooled"), found.most("none", "tokenwise")
    turned = found.most("none", "equivariance")
    said = f"pooled outputs change by {pooled:.0e}, single ones by {moved:.1f} (they move with their token to {turned:.0e})"
    if pooled > 1e-12:
        return Verdict("refuted", said)
    return Verdict("confirmed", said) if moved <= 1e-12 else Verdict("conditional", said, "of the pooled output")


@claim("Without positions 'dog bites man' and 'man bites dog' can't be told apart", source="003, why positions")
def judge_blind(found: Findings) -> Verdict:
    """Confirmed where every stack without positions stays within 5 points of chance, conditional where some do."""
    scores = {arm: found.interval(arm, "accuracy") for arm in MODELS if arm.startswith("none")}
    said = "; ".join(f"{arm}: {100 * score.mean:.1f} %" for arm, score in scores.items())
    said += f"; sinusoidal: {100 * found.mean('sinusoidal', 'accuracy'):.1f} %"
    blind = [arm for arm, score in scores.items() if abs(score.mean - 0.5) <= 0.05]
    if len(blind) == len(scores):
        return Verdict("confirmed", said)
    if not blind:
        return Verdict("refuted", said)
    return Verdict("conditional", said, f"the stack is: {'; '.join(blind)}")


def draw(found: Findings) -> Figure:
    figure, (axes,) = panels(1, size=(7, 2.8))
    scores = [100 * found.curve(arm, "accuracy") for arm in found.arms]
    bars(axes, found.arms, {"right": scores}, across=True)
    axes.axvline(50, color="black", ls=":", lw=1)
    axes.set(xlabel="right agents of held-out noun pairs (%), chance dotted", xlim=(0, 102))
    axes.set(title=f"mean, a dot a seed (n={len(scores[0])})")
    return figure


STUDY = Study(
    name="order",
    subject="Dog bites man: what attention knows of order without positions",
    data="generated sentences: noun, verb, noun; 20 nouns, 8 verbs, 50 of 190 pairs held out",
    measure="largest change of outputs under a permutation (float64); accuracy of the agent, chance 50 %",
    smallest="1e-12 for an identity; 5 points around chance",
    arms={
        arm: f"{method}, {'causal' if causal else 'bidirectional'}, {layers} layers"
        for arm, (method, causal, layers) in MODELS.items()
    },
    controls=[
        Control(
            says="without positions bidirectional attention stays within 5 points of chance",
            arm="none",
            mechanism="sinusoidal",
            fails=lambda found: abs(found.mean("none", "accuracy") - 0.5) <= 0.05,
        )
    ],
    claims=[
        judge_invariant,
        judge_blind,
    ],
    full=Budget(seeds=3, steps=400),
    quick=Budget(seeds=2, steps=250),
    run=run,
    draw=draw,
)
