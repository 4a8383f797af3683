"""The share of a classifier's answer that its bag of words should have, by rules of its skill s and of how strange words are, u.

    VNAIT_DATA=DIR python studies/shares.py [--sets trec,splice,subj,mr] [--shots 16] [--seeds 10] [--method vnait]

One training a draw serves all rules. Rows are drawn from train.csv and scored on three tenths of it, seeds 100 and up: this chooses, the
few-label suite reports. A row is a rule or a baseline; a cell its mean score in %, and what it has more than the rule in use, +- its
standard error.
"""

import argparse
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np

from vnait import bag_of_words, train
from vnait.baselines import BASELINES
from vnait.plan import labels_of
from vnait.predict import logits_of
from vnait.scores import scores
from vnait.suites import few_labels
from vnait.threads import one_thread

RULES: dict[str, Callable[[float, float], float]] = {
    "in use: 1 - (1 - w)(1 - u)^2": bag_of_words.share_of,
    "1 - (1 - w)(1 - u)": lambda s, u: bag_of_words.share_of(s, 1 - (1 - u) ** 0.5),
    "w = s^2 / (s^2 + (1 - s)^2)": lambda s, u: bag_of_words.share_of(s, 0),
    "w, at least .5": lambda s, u: max(bag_of_words.share_of(s, 0), 0.5),
    "w, at least .8": lambda s, u: max(bag_of_words.share_of(s, 0), 0.8),
    "root of s": lambda s, u: s**0.5,
    "the Transformer alone": lambda s, u: 0.0,
    "the bag of words alone": lambda s, u: 1.0,
}
TESTED = 600  # of the rows held out


def scores_of(name: str, method: str, shots: int, seed: int) -> list[float]:
    """The scores in %: by every rule, of one training, and of the baselines."""
    plan = few_labels.plan_of(name, os.environ["VNAIT_DATA"], (method,), (shots,), (seed,), few_labels.RUN)
    plan = replace(plan, test=None)  # so that the seed holds rows of train.csv out
    rows, test = plan.rows(shots, seed)
    words = plan.lexicon(seed)
    model = train.fit(replace(plan.run, method=method, seed=seed, bag=0), rows, words).model
    classes = sorted(set(labels_of(rows)))
    truth, labels = ([classes.index(label) for label in labels_of(table)] for table in (test, rows))
    ids, known = (words.encode(table.texts, max_length=plan.run.max_length) for table in (test, rows))
    weights = bag_of_words.rarity(words.frequency)
    skill = bag_of_words.skill(bag_of_words.bags_of(known, weights), labels, words.table)
    read = skill, bag_of_words.strange(known, labels)
    found = []
    for rule in RULES.values():
        leaning = deepcopy(model)
        bag_of_words.lean(leaning, known, labels, weights, rule(*read))
        answer = logits_of(leaning, ids[:TESTED]).argmax(-1).tolist()
        found.append(scores(truth[:TESTED], answer)[few_labels.SETS[name].metric])
    for baseline in BASELINES.values():
        answer = baseline(words, plan.tokenization).fit(rows.texts, labels).predict(test.texts[:TESTED]).tolist()
        found.append(scores(truth[:TESTED], answer)[few_labels.SETS[name].metric])
    return [100 * score for score in found]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default="trec,splice,subj,mr")
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--method", default="vnait")
    options = parser.parse_args()
    if "VNAIT_DATA" not in os.environ:
        parser.error("VNAIT_DATA is not set; set it to a folder with a folder a set (train.csv and test.csv).")
    for name in options.sets.split(","):
        with one_thread():
            seeds = range(100, 100 + options.seeds)
            found = np.array([scores_of(name, options.method, options.shots, seed) for seed in seeds])
        more = found - found[:, :1]
        error = more.std(0, ddof=1) / len(found) ** 0.5 if len(found) > 1 else more[0] * np.nan
        print(f"\n{name}, {options.shots} labels a class, {len(found)} draws")
        for rule, mean, gain, spread in zip([*RULES, *BASELINES], found.mean(0), more.mean(0), error, strict=True):
            print(f"  {rule:34} {mean:5.1f} {gain:+5.1f} +- {spread:.1f}")


if __name__ == "__main__":
    main()
