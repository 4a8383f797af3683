"""Do learned gaps follow phrases and clauses? Vnait's S with gaps from the words, held against the trees of a treebank.

The gap S_{i+1} - S_i of the source `content` is a function of three words, learned for whatever the model is asked. If it stood for
linguistic structure, it would be larger (or smaller) where a clause begins or ends than elsewhere: an area under the curve away from 1/2.
The model reads sentences of Universal Dependencies and tells the part of speech of every word's right neighbour, which takes places
and needs no tree. Whether the same source could follow clauses is asked by teaching it them.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from vnait.studies.figures import panels
from vnait.studies.parts.gaps import gaps
from vnait.studies.parts.treebank import Sentence, read, surprisal
from vnait.study import Budget, Claim, Control, Findings, Metrics, Study, Verdict, claim, data_folder

BANKS = {
    "en": ("ud_english_ewt", "en_ewt-ud-train-sample.conllu", "en_ewt-ud-test.conllu"),
    "zh": ("ud_chinese_gsdsimp", "zh_gsdsimp-ud-dev.conllu", "zh_gsdsimp-ud-test.conllu"),
}
SCORES = {
    "learned": "gaps of the source content, trained on the right neighbour's part of speech",
    "taught": "gaps of the source content, taught clause boundaries",
    "punctuation": "1 beside punctuation",
    "surprisal": "-log p of the right word, bigrams",
    "random": "random numbers",
}
KINDS = ("clause", "phrase")
AWAY = ", no punctuation"  # of places with no punctuation beside them
LENGTHS = range(6, 41)


def pairs_of(*scores: str) -> list[str]:
    return [f"{language}, {score}" for language in BANKS for score in scores]


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    language, score = arm.split(", ")
    folder, *files = BANKS[language]
    train, test = ([one for one in read(data_folder(folder) / file) if len(one.words) in LENGTHS] for file in files)
    found, extra = scored(score, train, test, seed, budget)
    places = {"": [np.full(len(one.clause), True) for one in test], AWAY: [~one.punctuation for one in test]}
    areas: Metrics = {}
    for kind in KINDS:
        for place, kept in places.items():
            scores = [own[use] for own, use in zip(found, kept, strict=True)]
            labels = [getattr(one, kind)[use] for one, use in zip(test, kept, strict=True)]
            areas[kind + place] = area(scores, labels, seed)
    return {**areas, **extra, "sentences": float(len(test))}


def scored(
    score: str, train: list[Sentence], test: list[Sentence], seed: int, budget: Budget
) -> tuple[list[np.ndarray], Metrics]:
    """A number for every place between words, of every test sentence."""
    if score == "punctuation":
        return [one.punctuation.astype(float) for one in test], {}
    if score == "random":
        random = np.random.default_rng(seed)
        return [random.random(len(one.clause)) for one in test], {}
    if score == "surprisal":
        return surprisal(train, test), {}
    return gaps(train, test, seed, budget.steps, taught=score == "taught")


def area(scores: list[np.ndarray], labels: list[np.ndarray], seed: int) -> list[float]:
    """The area under the curve of all places, ties half, with its 95 % interval over sentences."""
    sentence = np.repeat(np.arange(len(scores)), [len(one) for one in scores])
    score, label = np.concatenate(scores), np.concatenate(labels)
    level = np.unique(score, return_inverse=True)[1]
    random = np.random.default_rng(seed)
    found = []
    for draw in range(301):
        drawn = random.multinomial(len(scores), np.full(len(scores), 1 / len(scores))) if draw else np.ones(len(scores))
        own = drawn[sentence].astype(float)
        yes, no = (np.bincount(level, own * (label == side)) for side in (True, False))
        found.append(float(yes @ (no.cumsum() - no / 2) / (yes.sum() * no.sum())))
    return [found[0], *np.quantile(found[1:], [0.025, 0.975]).tolist()]


def areas(found: Findings, arm: str, kind: str) -> tuple[float, float, float]:
    """The mean over seeds, and the lowest and highest bound of their intervals."""
    rows = found.curve(arm, kind)
    return float(rows[:, 0].mean()), float(rows[:, 1].min()), float(rows[:, 2].max())


def told(found: Findings, arms: list[str], kind: str) -> str:
    return "; ".join("{} {:.3f} [{:.3f}, {:.3f}]".format(arm, *areas(found, arm, kind)) for arm in arms)


def follow(kind: str) -> Claim:
    """That gaps are larger at boundaries of clauses, or of phrases."""

    @claim(f"Learned S_i follow {kind}s", source="000, section 5.2", needs=pairs_of("learned"))
    def judge(found: Findings) -> Verdict:
        """Confirmed where gaps are larger at boundaries, the area .55 or more and its interval above 1/2, in both languages, away
        from punctuation too; conditional where in some of these.
        """
        arms = pairs_of("learned")
        count = " and ".join(f"{found.mean(arm, 'sentences'):.0f}" for arm in arms)
        said = f"area under the curve ({count} sentences; above 1/2: larger gaps at boundaries): "
        said += f"{told(found, arms, kind)}; away from punctuation: {told(found, arms, kind + AWAY)}"
        every = {f"{arm.split(',')[0]}, {own}": areas(found, arm, own) for arm in arms for own in (kind, kind + AWAY)}
        larger = [name for name, (mean, low, _) in every.items() if mean >= 0.55 and low > 0.5]
        return Verdict.among(larger, every, said, "; ".join(larger))

    return judge


@claim(
    "They tell clauses better than punctuation and surprisal do",
    source="000, section 5.2",
    needs=pairs_of("learned", "punctuation", "surprisal"),
)
def judge_better(found: Findings) -> Verdict:
    """Confirmed where their area is further from 1/2 than both others', in both languages."""
    arms = pairs_of("learned", "punctuation", "surprisal")
    away = np.abs([areas(found, arm, "clause")[0] - 0.5 for arm in arms]).reshape(len(BANKS), -1)  # languages, scores
    better = (away[:, 0] > away[:, 1:].max(1)).all()
    return Verdict("confirmed" if better else "refuted", told(found, arms, "clause"))


@claim(
    "Positions learned from content collapse to nearly linear ones",
    source="the field: RePo, arXiv 2512.14391",
    needs=pairs_of("learned", "taught"),
)
def judge_uniform(found: Findings) -> Verdict:
    """Confirmed where the gaps' SD is at most .2 of the uniform gap, every seed and language."""
    moved = {arm: (found.mean(arm, "spread"), found.mean(arm, "from_linear")) for arm in pairs_of("learned", "taught")}
    said = "SD of the gaps over the uniform gap, and largest |S - linear| of a sentence (of 100): "
    said += "; ".join(f"{arm} {spread:.2f}, {off:.1f}" for arm, (spread, off) in moved.items())
    right = [f"{found.mean(arm, 'accuracy'):.2f} ({arm})" for arm in pairs_of("learned")]
    said += f"; parts of speech right: {', '.join(right)}"
    most = max(found.most(arm, "spread") for arm in pairs_of("learned"))
    return Verdict("confirmed" if most <= 0.2 else "refuted", said)


@claim("Gaps read from three words could follow clauses", source="001, interpretability", needs=pairs_of("taught"))
def judge_able(found: Findings) -> Verdict:
    """Confirmed where gaps that are taught clauses reach an area of .6 away from punctuation, intervals and all."""
    arms, kind = pairs_of("taught"), "clause" + AWAY
    able = min(areas(found, arm, kind)[1] for arm in arms) >= 0.6
    return Verdict("confirmed" if able else "refuted", f"away from punctuation: {told(found, arms, kind)}")


def at_chance(language: str) -> Control:
    """That random numbers tell nothing."""
    arm = f"{language}, random"
    return Control(
        says=f"random numbers stay within .05 of chance ({language})",
        arm=arm,
        mechanism=f"{language}, taught",
        fails=lambda found: abs(areas(found, arm, "clause")[0] - 0.5) < 0.05,
    )


def draw(found: Findings) -> Figure:
    figure, both = panels(1, 1)
    places = np.arange(len(SCORES))
    for axes, language in zip(both, BANKS, strict=True):
        for row, kind in enumerate(name + place for name in KINDS for place in ("", AWAY)):
            rows = np.array([areas(found, f"{language}, {score}", kind) for score in SCORES])
            bounds, fill = np.abs(rows[:, 1:] - rows[:, :1]).T, ("black", "white")[row % 2]
            at = places + 0.18 * (row - 1.5)
            axes.errorbar(rows[:, 0], at, xerr=bounds, fmt="ooss"[row], mfc=fill, capsize=2, label=kind)
        axes.axvline(0.5, color="gray", lw=0.8)
        axes.set_yticks(places, list(SCORES))
        axes.set(xlim=(0.3, 0.9), ylim=(len(SCORES) - 0.4, -0.6), xlabel="area under the curve of boundaries")
        sentences = found.values(f"{language}, learned", "sentences")
        axes.set_title(f"{language}: {sentences[0]:.0f} sentences, {len(sentences)} seeds; mean, widest 95 % bounds")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


STUDY = Study(
    name="phrases",
    subject="Do learned gaps follow phrases and clauses?",
    data="Universal Dependencies: English EWT and Chinese GSDSimp, sentences of 6 to 40 words; test files apart",
    measure="area under the curve of the gap at boundaries against other places, bootstrap over sentences",
    smallest=".05 of area above 1/2",
    arms={
        f"{language}, {score}": f"{BANKS[language][0]}: {about}"
        for language in BANKS
        for score, about in SCORES.items()
    },
    needs={f"{language}, {score}": f"data:{BANKS[language][0]}" for language in BANKS for score in SCORES},
    controls=[*map(at_chance, BANKS)],
    claims=[*map(follow, KINDS), judge_better, judge_uniform, judge_able],
    full=Budget(seeds=3, steps=500),
    quick=Budget(seeds=2, steps=250),
    run=run,
    draw=draw,
)
