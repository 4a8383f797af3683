"""The four terms of an attention score, and which of them grow in training.

With X = C + P the scores X W X^T, W = W_Q W_K^T, are C W C^T + C W P^T + P W C^T + P W P^T. This identity
holds for any numbers; informative is each term's share of the scores after training. A row's constant cancels
in the softmax, so shares are of sums of squares around each row's mean. Biases of the projections add terms,
and a LayerNorm before the projections divides content and position by the same number.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.results.explanation.attention import TERMS, centred, four_terms
from vnait_lab.kit import Figure, decided, descend
from vnait_lab.studies.figures import bars, maps, panels
from vnait_lab.studies.sinusoid import codes
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

LENGTH, WIDTH, HEAD, BATCH = 24, 32, 16, 64
EXACT = {
    "four terms": "the four terms, projections without biases",
    "two terms": "content-content and position-position alone",
    "biases": "the four terms where projections have biases",
    "LayerNorm": "the four terms where a LayerNorm stands before the projections",
}
TASKS = {
    "content": "trained to find the token whose word is the next number after one's own",
    "position": "trained to find the token 3 places before",
    "both": "trained to find the next number in the other half of the text",
    "nothing": "trained to find a token drawn at random",
}
STUDY = Study.of(
    __name__,
    source="003, learning, 2.1",
    data=f"generated: texts of {LENGTH} shuffled words; sinusoidal codes of width {WIDTH}",
    measure="errors of the sums in std of the scores; shares of the four terms' centred sums of squares; "
    "accuracy",
    smallest="1e-12 for an identity; 5 % of the scores for a share",
    variants=EXACT | TASKS,
    full=Budget(seeds=5, steps=400),
    quick=Budget(seeds=3, steps=200),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    return exact(variant, seed) if variant in EXACT else trained(variant, seed, budget)


def exact(variant: str, seed: int) -> Metrics:
    """The largest error of a sum of terms, and of the mended sum, in std of the scores; R^2 of centred
    rows.
    """
    random = Generator().manual_seed(seed)
    content = torch.randn(LENGTH, WIDTH, generator=random).double()
    place = codes(torch.arange(LENGTH), WIDTH)
    query, key = torch.randn(2, WIDTH, HEAD, generator=random).double()
    x = content + place
    mended = terms = four_terms(content, place, query, key).sum(0)
    scores = (x @ query) @ (x @ key).mT
    if variant == "two terms":
        terms = four_terms(content, place, query, key)[[0, 3]].sum(0)
    if variant == "biases":
        query_bias, key_bias = torch.randn(2, HEAD, generator=random).double()
        scores = (x @ query + query_bias) @ (x @ key + key_bias).mT
        mended = terms + (x @ query @ key_bias)[:, None] + (x @ key @ query_bias) + query_bias @ key_bias
    if variant == "LayerNorm":
        spread = x.std(1, correction=0, keepdim=True)
        normed = F.layer_norm(x, (WIDTH,), eps=0)
        scores = (normed @ query) @ (normed @ key).mT
        # LayerNorm is linear in the parts once the token's std is known: centre and divide each of them.
        content, place = ((part - part.mean(1, keepdim=True)) / spread for part in (content, place))
        mended = four_terms(content, place, query, key).sum(0)
    rest = centred(scores - terms).square().sum() / centred(scores).square().sum()
    errors = (float((scores - total).abs().max() / scores.std()) for total in (terms, mended))
    return {**dict(zip(("error", "mended"), errors, strict=True)), "explained": float(1 - rest)}


def texts(task: str, count: int, random: Generator) -> tuple[Tensor, Tensor]:
    """Words (count, T) and the target of each token (count, T); -100 if it has none."""
    drawn = torch.rand(count, 2, LENGTH // 2, generator=random).argsort(-1)
    place = torch.arange(LENGTH).expand(count, -1)
    if task == "both":  # every word once in each half
        words, back = drawn.flatten(1), drawn.argsort(-1)
        wanted = (drawn + 1) % (LENGTH // 2)
        target = back.flip(1).gather(-1, wanted) + torch.tensor([[LENGTH // 2], [0]])
        return words, target.flatten(1)
    words = torch.rand(count, LENGTH, generator=random).argsort(-1)
    if task == "content":
        return words, words.argsort(-1).gather(-1, (words + 1) % LENGTH)
    if task == "position":
        return words, torch.where(place >= 3, place - 3, -100)
    return words, torch.randint(LENGTH, (count, LENGTH), generator=random)


def trained(task: str, seed: int, budget: Budget) -> Metrics:
    """Learn W_Q, W_K and the words' vectors; accuracy and shares on new texts."""
    random = Generator().manual_seed(seed)
    vectors = torch.randn(LENGTH, WIDTH, generator=random).requires_grad_()
    query, key = (
        torch.randn(WIDTH, HEAD, generator=random).div(WIDTH**0.5).requires_grad_() for _ in range(2)
    )
    place = codes(torch.arange(LENGTH), WIDTH).float()

    def loss(step: int) -> Tensor:
        words, wanted = texts(task, BATCH, random)
        x = vectors[words] + place
        scores = (x @ query) @ (x @ key).mT / HEAD**0.5
        return F.cross_entropy(scores.flatten(0, 1), wanted.flatten())

    descend([vectors, query, key], loss, steps=budget.steps, learning_rate=1e-2)
    words, wanted = texts(task, 500, random)
    with torch.no_grad():
        terms = four_terms(vectors[words], place.expand(500, -1, -1), query, key) / HEAD**0.5
    right = (terms.sum(0).argmax(-1) == wanted)[wanted >= 0]
    power = centred(terms).square().sum((1, 2, 3))
    return {
        "accuracy": float(right.double().mean()),
        "shares": (power / power.sum()).tolist(),
        "maps": np.round(centred(terms[:, 0]).double().numpy(), 2).tolist(),
    }


@STUDY.control(
    "content-content and position-position alone miss the scores by more than .1 std",
    variant="two terms",
    mechanism="four terms",
)
def two_terms_miss(findings: Findings) -> bool:
    return findings.least("two terms", "error") > 0.1


@STUDY.control(
    "trained on targets drawn at random, accuracy stays below 10 %", variant="nothing", mechanism="content"
)
def random_targets_are_not_found(findings: Findings) -> bool:
    return findings.most("nothing", "accuracy") < 0.1


@STUDY.claim("With X = content + position the scores are four terms")
def judge_identity(findings: Findings) -> Verdict:
    """Confirmed if the four add up to the scores within 1e-12 std."""
    worst = findings.most("four terms", "error")
    return decided(worst <= 1e-12, f"they miss the scores by {worst:.0e} std at most")


@STUDY.claim("These four are all there is in a Transformer's attention")
def judge_all(findings: Findings) -> Verdict:
    """Confirmed if they add up with biases and LayerNorm too; conditional if three bias terms and folded
    norms mend the sum.
    """
    names = ("biases", "LayerNorm")
    wrong, mended = ({name: findings.most(name, metric) for name in names} for metric in ("error", "mended"))
    summary = f"the four terms miss the scores by {wrong['biases']:.1f} std with biases (by "
    summary += f"{mended['biases']:.0e} with three more terms), by {wrong['LayerNorm']:.1f} std with "
    summary += f"LayerNorm ({mended['LayerNorm']:.0e} with both parts centred and divided by the token's std)"
    condition = "projections have no biases, and each token's norm is folded into its parts"
    refuted = max(mended.values()) > 1e-12
    return decided(max(wrong.values()) <= 1e-12, summary, refuted=refuted, condition=condition)


@STUDY.claim("A score is content similarity plus position relevance: two terms", source="003, attention, 2.1")
def judge_two(findings: Findings) -> Verdict:
    """Confirmed if these two explain 95 % of the variance of untrained scores."""
    mean, low, high = findings.interval("two terms", "explained")
    summary = f"untrained, content-content and position-position explain {100 * mean:.0f} % of the scores' "
    summary += "variance"
    if low is not None and high is not None:
        summary += f" (95 %: {100 * low:.0f} to {100 * high:.0f} %)"
    return decided(mean >= 0.95, summary)


@STUDY.claim("Training works on the position-position term")
def judge_shares(findings: Findings) -> Verdict:
    """Confirmed if it has 85 % of the scores, and content-content 5 % at most, whatever the task;
    conditional if tasks about words put 80 % into content-content; undecided below an accuracy of 90 %.
    """
    tasks = ("content", "position", "both")
    right = {task: findings.mean(task, "accuracy") for task in tasks}
    shares = {task: findings.curve(task, "shares").mean(0) for task in tasks}
    summary = "; ".join(
        f"{task}: c-c {100 * share[0]:.0f} %, p-p {100 * share[3]:.0f} %, right {100 * right[task]:.0f} %"
        for task, share in shares.items()
    )
    if min(right.values()) < 0.9:
        return Verdict("undecided", summary)
    position = shares["position"][3] >= 0.85 and shares["position"][0] <= 0.05
    content = shares["content"][0] >= 0.8 and shares["content"][3] <= 0.05
    condition = "the task asks for a position; if it asks for a word, content-content grows"
    return decided(position and not content, summary, refuted=not position, condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (*left, right) = panels(1, 1, 1, 1, 1.7, size=(12.5, 3.2))
    shown = findings.curve("both", "maps")[0]
    images = dict(zip(TERMS, shown, strict=True))
    top = np.abs(shown).max()
    labels = {"of": "score minus its row's mean", "x": "key", "y": "query (task: both)"}
    maps(figure, left, images, **labels, vmin=-top, vmax=top)
    shares = {task: 100 * findings.curve(task, "shares").T for task in TASKS}
    groups = {name: [share[term] for share in shares.values()] for term, name in enumerate(TERMS)}
    bars(right, list(TASKS), groups, across=True)
    right.set(xlabel="share of the scores (%)", xlim=(0, 100))
    right.set_title(f"mean, one dot per seed (n={findings.seeds})")
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure
