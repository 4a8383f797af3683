"""Dog bites man: attention and word order without positions.

Without positions a bidirectional Transformer is equivariant: permuted tokens give permuted outputs, and so
the mean over them is invariant. Its single outputs are not, as they depend on their own token. A causal mask
breaks the symmetry: a token sees how many tokens precede it, and from the second layer on the order of the
prefix matters.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait_lab.kit import Bars, Figure, Reader, decided, descend, each, figure
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

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
STUDY = Study.of(
    __name__,
    source="003, why positions; 000, section 1.1",
    data="generated sentences: noun, verb, noun; 20 nouns, 8 verbs, 50 of 190 pairs held out",
    measure="largest change of outputs under a permutation (float64); accuracy of the agent, chance 50 %",
    smallest="1e-12 for an identity; 5 points around chance",
    variants={
        variant: f"{method}, {'causal' if causal else 'bidirectional'}, {layers} layers"
        for variant, (method, causal, layers) in MODELS.items()
    },
    full=Budget(seeds=3, steps=400),
    quick=Budget(seeds=2, steps=250),
)


def reader(variant: str, seed: int) -> Reader:
    method, causal, layers = MODELS[variant]
    torch.manual_seed(seed)
    return Reader(method, vocabulary=END + 1, outputs=NOUNS, num_layers=layers, causal=causal)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    return {**symmetries(variant, seed), "accuracy": accuracy(variant, seed, budget)}


@torch.no_grad()
def symmetries(variant: str, seed: int) -> Metrics:
    """The largest changes of an untrained model's outputs under permutations of the tokens, in float64."""
    model = reader(variant, seed).double()
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


def accuracy(variant: str, seed: int, budget: Budget) -> float:
    """The accuracy of "who bites?", the first of two nouns, on held-out pairs in both orders."""
    random = Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(NOUNS))
    pairs = pairs[torch.randperm(len(pairs), generator=random)]
    train, test = pairs[50:], pairs[:50]
    model = reader(variant, seed)

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
    nouns = pairs[torch.randint(len(pairs), (count,), generator=random)]
    nouns = torch.where(torch.rand(count, 1, generator=random) < 0.5, nouns, nouns.flip(1))
    verbs = NOUNS + torch.randint(VERBS, (count, 1), generator=random)
    return torch.cat([nouns[:, :1], verbs, nouns[:, 1:], torch.full_like(verbs, END)], 1)


@STUDY.control(
    "without positions bidirectional attention stays within 5 points of chance",
    variant="none",
    mechanism="sinusoidal",
)
def blind_by_chance(findings: Findings) -> bool:
    return abs(findings.mean("none", "accuracy") - 0.5) <= 0.05


@STUDY.claim("Without positions the output does not depend on the order of the tokens")
def judge_invariant(findings: Findings) -> Verdict:
    """Confirmed if no output changes by more than 1e-12, conditional if only the pooled output does not."""
    pooled, moved = findings.most("none", "pooled"), findings.most("none", "tokenwise")
    off = findings.most("none", "equivariance")
    summary = f"pooled outputs change by {pooled:.0e}, single ones by {moved:.1f} "
    summary += f"(they move with their token, to {off:.0e})"
    same, condition = pooled <= 1e-12, "the output is the pooled one"
    return decided(same and moved <= 1e-12, summary, refuted=not same, condition=condition)


@STUDY.claim("Without positions 'dog bites man' and 'man bites dog' can't be told apart")
def judge_blind(findings: Findings) -> Verdict:
    """Confirmed if every stack without positions stays within 5 points of chance, conditional if some do."""
    stacks = [variant for variant in MODELS if variant.startswith("none")]
    summary = findings.listed([*stacks, "sinusoidal"], "accuracy", "{name}: {:.1f} %", scale=100, join="; ")
    blind = {stack: abs(findings.mean(stack, "accuracy") - 0.5) <= 0.05 for stack in stacks}
    return each(blind, summary, "the stack is: {}", join="; ")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    label = "right agent, held-out noun pairs (%)"
    right = findings.curves(MODELS, "accuracy")
    return figure(Bars(right, label, percent=True, at_x={"chance": 50}, xlim=(0, 102)))
