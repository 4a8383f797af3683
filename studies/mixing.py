"""How to mix a Transformer's logits with those of a linear part: rules side by side on the same trainings, and frozen embeddings.

    VNAIT_DATA=DIR python studies/mixing.py --seeds 5 [--sets trec,mr] [--part train] [--base MODEL_FOLDER]

16 labels per class, `vnait`. --part train scores rows of train.csv that were not drawn (seeds from 100 on were used to choose), --part
test scores test.csv. Arms: the Transformer alone, the linear part alone, the sum of their logits, temperature scaling of both on held-out
rows (Guo et al. 2017), stacking (Wolpert 1992: two coefficients fitted on the held-out rows), and the library's share. With --base also
`frozen`: L2 logistic regression (C = 10) of the base's mean-pooled, unit-length embeddings. Records go to studies/records/mixing.
"""

from __future__ import annotations

import argparse
import os
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

from vnait import bag_of_words, record, text
from vnait.bag_of_words import BagRegression, bags_of, rarity, share_of, skill, strange
from vnait.lexicon import Lexicon
from vnait.predict import logits_of
from vnait.record import Record
from vnait.scores import scores
from vnait.statistics import interval
from vnait.suites.few_labels import RUN, SETS, plan_of
from vnait.text import Table
from vnait.threads import one_thread
from vnait.train import fit

OUT = Path(__file__).parent / "records" / "mixing"
SHOTS, SCORED = 16, 1000
Logits = NDArray[np.float64]


def rms(logits: Logits) -> float:
    return bag_of_words.rms(torch.from_numpy(np.asarray(logits, dtype=np.float64)))


def loss(logits: Logits, labels: NDArray[Any]) -> float:
    return float(-log_softmax(logits, 1)[np.arange(len(labels)), labels].sum())


def temperature(logits: Logits, labels: NDArray[Any]) -> float:
    """The factor t of t * logits with the least loss on held-out rows, log t drawn towards a unit RMS by a unit normal prior."""
    start = 1 / max(rms(logits), 1e-9)
    found = minimize(lambda p: loss(np.exp(p[0]) * start * logits, labels) + p[0] ** 2 / 2, np.zeros(1))
    return float(np.exp(found.x[0]) * start)


def stacked(deep: Logits, wide: Logits, labels: NDArray[Any]) -> tuple[float, float]:
    """Two positive coefficients with the least loss on held-out rows, the same prior."""
    start = 1 / np.array([max(rms(deep), 1e-9), max(rms(wide), 1e-9)]) / 2

    def objective(p: NDArray[Any]) -> float:
        one, two = np.exp(p) * start
        return loss(one * deep + two * wide, labels) + float(p @ p) / 2

    one, two = np.exp(minimize(objective, np.zeros(2)).x) * start
    return float(one), float(two)


def arms(learn: Table, test: Table, words: Lexicon, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Each arm's scores on the rows of `test`."""
    classes = sorted(set(learn.labels or []))
    labels, truth = (np.array([classes.index(one) for one in table.labels or []]) for table in (learn, test))
    ids, asked = (words.encode(table.texts, max_length=RUN.max_length) for table in (learn, test))
    run = replace(RUN, method="vnait", seed=seed, bag=0.0)
    model = fit(run, learn, words).model
    deep_learn, deep = (logits_of(model, rows).double().numpy() for rows in (ids, asked))
    rows, held = text.split(learn.labels or [], holdout=0.2, seed=seed)
    part = fit(run, learn.select(rows), words).model
    deep_held = logits_of(part, [ids[row] for row in held]).double().numpy()

    weights = rarity(words.frequency, words.tokenizer.all_special_ids)
    bags, bags_asked = bags_of(ids, weights), bags_of(asked, weights)
    linear = BagRegression(words.table).fit(bags, labels)
    wide = linear.decision_function(bags_asked)
    folded = np.zeros((len(labels), len(classes)))
    for some, out in StratifiedKFold(5, shuffle=True, random_state=0).split(folded, labels):
        folded[out] = BagRegression(words.table).fit(bags[some], labels[some]).decision_function(bags[out])

    share = share_of(skill(bags, labels, words.table), strange(ids, labels.tolist()))
    ratio = min(max(rms(deep_learn) / rms(linear.decision_function(bags)), 1.0), 100.0)
    one, two = stacked(deep_held, folded[held], labels[held])
    mixed = {
        "transformer": deep,
        "linear": wide,
        "sum": deep + wide,
        "temperature": temperature(deep_held, labels[held]) * deep + temperature(folded, labels) * wide,
        "stacking": one * deep + two * wide,
        "share": (1 - share) / ratio * deep + share * wide,
    }
    for name, logits in mixed.items():
        yield name, scores(truth.tolist(), logits.argmax(1).tolist())


class Frozen:
    """Mean-pooled last states of a pretrained encoder, of unit length; each text is read once."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer, self.model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
        self.known: dict[str, NDArray[np.float32]] = {}

    @torch.no_grad()
    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        new = sorted({one for one in texts if one not in self.known}, key=len)
        for start in range(0, len(new), 64):
            some = new[start : start + 64]
            batch = self.tokenizer(some, padding=True, truncation=True, max_length=256, return_tensors="pt")
            states, mask = self.model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1))
            self.known.update(zip(some, mean.numpy(), strict=True))
        return np.stack([self.known[one] for one in texts])

    def score(self, learn: Table, test: Table) -> dict[str, float]:
        head = LogisticRegression(C=10, max_iter=2000).fit(self(learn.texts), learn.labels)
        names = list(head.classes_)
        answer = [names.index(one) for one in head.predict(self(test.texts))]
        return scores([names.index(one) if one in names else -1 for one in test.labels or []], answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--part", choices=("train", "test"), default="test")
    parser.add_argument("--base")
    parser.add_argument("--show", action="store_true", help="print the tables of the records and stop")
    options = parser.parse_args()
    if options.show:
        show(options.part)
        return
    frozen = Frozen(options.base) if options.base else None
    seeds = range(options.first, options.first + options.seeds)
    done = {(one.data["name"], one.seed, one.method, one.data["part"]) for one in _read()}
    with record.appending(OUT / "records.jsonl") as file, one_thread():
        for name in options.sets.split(","):
            plan = plan_of(name, os.environ["VNAIT_DATA"], ["vnait"], [SHOTS], list(seeds), RUN)
            words = None
            for seed in seeds:
                learn, test = plan.rows(SHOTS, seed)
                if options.part == "train":
                    drawn = set(learn.texts)
                    rest = [row for row, one in enumerate(plan.table.texts) if one not in drawn]
                    rows = np.random.default_rng(seed).permutation(rest)[:SCORED]
                    test = plan.table.select(map(int, rows))
                if frozen is not None and (name, seed, "frozen", options.part) not in done:
                    file.write(_record(name, seed, "frozen", options.part, frozen.score(learn, test)))
                if (name, seed, "share", options.part) not in done:
                    words = words or plan.lexicon(seed)
                    for arm, found in arms(learn, test, words, seed):
                        file.write(_record(name, seed, arm, options.part, found))
                        print(name, seed, arm, round(found["accuracy"], 3), flush=True)
    show(options.part)


def _record(name: str, seed: int, arm: str, part: str, found: dict[str, float]) -> Record:
    data = {"name": name, "part": part, "shots": SHOTS}
    return Record.now(
        key=f"{name}-{seed}-{arm}-{part}",
        method=arm,
        seed=seed,
        run={},
        data=data,
        metrics=found,
        parameters=0,
        seconds=0.0,
    )


def _read() -> list[Record]:
    path = OUT / "records.jsonl"
    return record.read(path) if path.is_file() else []


def _earlier(name: str) -> list[Record]:
    """The same draws by the recipe before this one (two trainings of 300 steps, another linear part), and the two baselines."""
    path = OUT.parent / "few_labels" / name / "records.jsonl"
    drawn = {one.seed for one in _read() if one.data["name"] == name}
    methods = ("vnait", "average-logreg", "tfidf-logreg")
    found = record.read(path) if path.is_file() else []
    return [one for one in found if one.method in methods and one.data["shots"] == SHOTS and one.seed in drawn]


def show(part: str) -> None:
    """Accuracy (MCC for CoLA) by set and arm, and each arm less the share rule, paired by set and draw."""
    found: dict[str, dict[tuple[str, int], float]] = {}
    for one in _read():
        if one.data["part"] == part:
            score = one.metrics[SETS[one.data["name"]].metric]
            found.setdefault(one.method, {})[one.data["name"], one.seed] = 100 * score
    if part == "test":
        for one in (one for name in SETS for one in _earlier(name)):
            found.setdefault(f"{one.method}, before", {})[one.data["name"], one.seed] = (
                100 * one.metrics[SETS[one.data["name"]].metric]
            )
    sets = [name for name in SETS if any(key[0] == name for key in found.get("share", {}))]
    print(f"| arm | {' | '.join(sets)} | mean | minus share, pooled by draw |\n|---|{'---|' * (len(sets) + 2)}")
    for arm, cells in found.items():
        means = [np.mean([value for key, value in cells.items() if key[0] == name] or [np.nan]) for name in sets]
        both = [key for key in cells if key in found["share"]]
        draws = sorted({seed for _, seed in both})
        less = interval(
            [float(np.mean([cells[key] - found["share"][key] for key in both if key[1] == seed])) for seed in draws]
        )
        bounds = "" if less.low is None else f" [{less.low:+.1f}, {less.high:+.1f}]"
        print(
            f"| {arm} | {' | '.join(f'{mean:.1f}' for mean in means)} | {np.mean(means):.1f} | {less.mean:+.1f}{bounds} |"
        )


if __name__ == "__main__":
    main()
