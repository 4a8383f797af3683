"""Rules that mix the logits of a Transformer with those of a linear part, compared on the same trainings, and
frozen embeddings.

    VNAIT_DATA=DIR python -m vnait_lab.runs.mixing [--sets trec,mr] [--seeds 5] [--part train] [--base FOLDER]

`vnait-warp`, the first default, with 16 labels per class. Variants: the Transformer alone, the
linear part alone, the sum of their logits, temperature scaling of both on held-out rows (Guo et al. 2017),
stacking (Wolpert 1992: two coefficients fitted on the held-out rows), and the library's share. With --base
also `frozen`: L2 logistic regression (C = 10) on the base's mean-pooled, unit-length embeddings. --part test
scores test.csv; --part train scores other rows of train.csv (seeds from 100 on chose the rule). Records go to
studies/records/mixing; recorded runs are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from vnait import data as text
from vnait.data.vocabulary import Vocabulary
from vnait.results import record
from vnait.results.record import Record
from vnait.results.scores import scores
from vnait.shared.processes import one_thread
from vnait.shared.statistics import interval
from vnait.train import bag_of_words
from vnait.train.bag_of_words import BagRegression, bags_of, share_of, sif_weights, skill, strange
from vnait.train.base import Base
from vnait.train.features import Pooled
from vnait.train.fitting import fit
from vnait.train.logits import logits_of
from vnait_lab.records import path_of, where
from vnait_lab.runs import data_folder, parser
from vnait_lab.suites.few_labels import RUN, SETS, plan_of, score_of

PATH = path_of("mixing")
SHOTS, SCORED = 16, 1000
BEFORE = ("vnait-warp", "average-logreg", "tfidf-logreg")  # rows of the previous recipe
Logits = NDArray[np.float64]


def rms(logits: Logits) -> float:
    return bag_of_words.rms(torch.from_numpy(np.asarray(logits, dtype=np.float64)))


def loss(logits: Logits, labels: NDArray[Any]) -> float:
    return float(-log_softmax(logits, 1)[np.arange(len(labels)), labels].sum())


def temperature(logits: Logits, labels: NDArray[Any]) -> float:
    """The factor t with the least loss of t * logits on held-out rows; a normal prior on log t pulls
    their RMS to 1.
    """
    start = 1 / max(rms(logits), 1e-9)
    least = minimize(lambda p: loss(np.exp(p[0]) * start * logits, labels) + p[0] ** 2 / 2, np.zeros(1))
    return float(np.exp(least.x[0]) * start)


def stacked(deep: Logits, wide: Logits, labels: NDArray[Any]) -> tuple[float, float]:
    """Two positive coefficients with the least loss on held-out rows, under the same prior."""
    start = 1 / np.array([max(rms(deep), 1e-9), max(rms(wide), 1e-9)]) / 2

    def objective(p: NDArray[Any]) -> float:
        of_deep, of_wide = np.exp(p) * start
        return loss(of_deep * deep + of_wide * wide, labels) + float(p @ p) / 2

    of_deep, of_wide = np.exp(minimize(objective, np.zeros(2)).x) * start
    return float(of_deep), float(of_wide)


def variants(
    learn: text.Table, test: text.Table, words: Vocabulary, seed: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """The scores of each variant on `test`."""
    classes = sorted(set(learn.labels or []))
    labels, truth = (
        np.array([classes.index(label) for label in table.labels or []]) for table in (learn, test)
    )
    ids, ids_test = (words.encode(table.texts, max_length=RUN.max_length) for table in (learn, test))
    run = replace(RUN, method="vnait-warp", seed=seed, bag=0.0)
    model = fit(run, learn, words).model
    deep_learn, deep = (logits_of(model, rows).double().numpy() for rows in (ids, ids_test))
    rows, held = text.split(learn.labels or [], holdout=0.2, seed=seed)
    part = fit(run, learn.select(rows), words).model
    deep_held = logits_of(part, [ids[row] for row in held]).double().numpy()

    weights = sif_weights(words.frequency, words.tokenizer.all_special_ids)
    bags, bags_test = bags_of(ids, weights), bags_of(ids_test, weights)
    linear = BagRegression(words.table).fit(bags, labels.tolist())
    wide = linear.decision_function(bags_test)
    folded = np.zeros((len(labels), len(classes)))
    for learned, out in StratifiedKFold(5, shuffle=True, random_state=0).split(folded, labels):
        folded[out] = (
            BagRegression(words.table).fit(bags[learned], labels[learned]).decision_function(bags[out])
        )

    share = share_of(skill(bags, labels.tolist(), words.table), strange(ids, labels.tolist()))
    ratio = min(max(rms(deep_learn) / rms(linear.decision_function(bags)), 1.0), 100.0)
    of_deep, of_wide = stacked(deep_held, folded[held], labels[held])
    mixed = {
        "transformer": deep,
        "linear": wide,
        "sum": deep + wide,
        "temperature": temperature(deep_held, labels[held]) * deep + temperature(folded, labels) * wide,
        "stacking": of_deep * deep + of_wide * wide,
        "share": (1 - share) / ratio * deep + share * wide,
    }
    for name, logits in mixed.items():
        yield name, scores(truth.tolist(), logits.argmax(1).tolist())


class Frozen(Pooled):
    """Logistic regression of the library's own frozen embeddings."""

    def score(self, learn: text.Table, test: text.Table) -> dict[str, float]:
        head = LogisticRegression(C=10, max_iter=2000).fit(self(learn.texts), learn.labels)
        names = list(head.classes_)
        answers = [names.index(label) for label in head.predict(self(test.texts))]
        return scores([names.index(label) if label in names else -1 for label in test.labels or []], answers)


def main() -> None:
    command = parser(__doc__, seeds=5, jobs=False, sets=tuple(SETS))
    command.add_argument("--first", type=int, default=0, help="the first seed [%(default)s]")
    command.add_argument(
        "--part", choices=("train", "test"), default="test", help="rows to score [%(default)s]"
    )
    command.add_argument("--base", help="folder of a pretrained encoder [none]")
    command.add_argument("--show", action="store_true", help="only print the tables of the records")
    options = command.parse_args()
    if not options.show:
        data = data_folder(command)
        frozen = Frozen(Base.load(options.base)) if options.base else None
        seeds = range(options.first, options.first + options.seeds)
        with record.appending(PATH) as append, one_thread():
            for name in options.sets:
                for run in run_set(name, data, seeds, options.part, frozen):
                    append(run)
                    print(name, run.seed, run.method, round(run.metrics["accuracy"], 3), flush=True)
    show(options.part)


def run_set(name: str, data: Path, seeds: range, part: str, frozen: Frozen | None) -> Iterator[Record]:
    """The records of one set that are not there yet."""
    done = {
        (run.seed, run.method) for run in _read(PATH) if (run.data["name"], run.data["part"]) == (name, part)
    }
    plan = plan_of(name, data, ["vnait-warp"], [SHOTS], list(seeds), RUN)
    words = None
    for seed in seeds:
        learn, test = plan.rows(SHOTS, seed)
        if part == "train":
            drawn = set(learn.texts)
            rest = [row for row, text in enumerate(plan.table.texts) if text not in drawn]
            rows = np.random.default_rng(seed).permutation(rest)[:SCORED]
            test = plan.table.select(map(int, rows))
        if frozen is not None and (seed, "frozen") not in done:
            yield _record(name, seed, "frozen", part, frozen.score(learn, test))
        if (seed, "share") not in done:
            words = words or plan.vocabulary(seed)
            for variant, metrics in variants(learn, test, words, seed):
                yield _record(name, seed, variant, part, metrics)


def _record(name: str, seed: int, variant: str, part: str, metrics: dict[str, float]) -> Record:
    return Record.now(
        key=f"{name}-{seed}-{variant}-{part}",
        method=variant,
        seed=seed,
        run={},
        data={"name": name, "part": part, "shots": SHOTS},
        metrics=metrics,
        parameters=0,
        seconds=0.0,
    )


def _read(path: Path) -> list[Record]:
    return record.read(path) if path.is_file() else []


def by_rule(part: str) -> dict[str, dict[tuple[str, int], float]]:
    """Rule -> (set, draw) -> accuracy (MCC on CoLA), in points. On test rows also the same draws by the
    previous recipe (two trainings of 300 steps, another linear part), and the two baselines.
    """
    mixed = _read(PATH)
    runs = [(run.method, run) for run in where(mixed, part=part)]
    if part == "test":
        drawn = {(run.data["name"], run.seed) for run in mixed}
        before = [run for name in SETS for run in _read(path_of("few_labels_before", name))]
        runs += [
            (f"{run.method}, before", run)
            for run in where(before, shots=SHOTS)
            if run.method in BEFORE and (run.data["name"], run.seed) in drawn
        ]
    scores: dict[str, dict[tuple[str, int], float]] = {}
    for rule, run in runs:
        scores.setdefault(rule, {})[run.data["name"], run.seed] = 100 * score_of(run)
    return scores


def show(part: str) -> None:
    """Print the mean per set and rule, and each rule minus the share rule, paired by set and draw."""
    scores = by_rule(part)
    share = scores.get("share", {})
    sets = [name for name in SETS if any(key[0] == name for key in share)]
    print(f"| arm | {' | '.join(sets)} | mean | minus share, pooled by draw |")
    print(f"|---|{'---|' * (len(sets) + 2)}")
    for rule, points in scores.items():
        means = [np.mean([points[key] for key in points if key[0] == name] or [np.nan]) for name in sets]
        gaps: dict[int, list[float]] = {}
        for key in sorted(points.keys() & share.keys()):
            gaps.setdefault(key[1], []).append(points[key] - share[key])
        minus = interval([float(np.mean(gaps[seed])) for seed in sorted(gaps)])
        shown = " | ".join(f"{mean:.1f}" for mean in (*means, np.mean(means)))
        print(f"| {rule} | {shown} | {minus.written('{:+.1f}')} |")


if __name__ == "__main__":
    main()
