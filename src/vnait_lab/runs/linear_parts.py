"""The linear part beside the Transformer: the bag of words, what training rows choose, or a simple model.

    VNAIT_DATA=DIR python -m vnait_lab.runs.linear_parts [--sets splice,trec] [--shots 16] [--seeds 3]

Per draw of labelled rows: the accuracy of the Transformer alone, with its bag of words, with the part that
the rows choose, of each simple model alone, and of the sum (1 - w) T / r + w L of the Transformer and each. w
is the share that `bag_of_words.share_of` gives to the skill of the simple model on five folds of these rows,
r the ratio of the logits' sizes. Scored are training texts that were not drawn, since the table is there to
choose by.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from vnait.data import Table, encode
from vnait.data.vocabulary import Vocabulary
from vnait.train.bag_of_words import rms, share_of
from vnait.train.baselines import fit_baseline
from vnait.train.fitting import fit
from vnait.train.logits import logits_of
from vnait_lab.runs import data_folder
from vnait_lab.suites.few_labels import RUN, plan_of

METHOD, SIMPLE, FOLDS, SCORED = "vnait", ("one-hot", "tfidf", "averaged"), 5, 800


def accuracies(table: Table, held: Table, words: Vocabulary, seed: int) -> dict[str, float]:
    """The accuracy of each variant on the held texts, and the simple models' shares."""
    run = replace(RUN, method=METHOD, seed=seed)
    alone = fit(replace(run, bag=0.0), table, words)
    mixed, chosen = (fit(replace(run, one_hot=one_hot), table, words) for one_hot in (False, True))
    classes, ids = (
        alone.classes,
        [encode(words.tokenizer, part.texts, max_length=512) for part in (table, held)],
    )
    truth = [classes.index(label) for label in held.single_labels]

    def right(logits: NDArray[Any]) -> float:
        return float((logits.argmax(1) == truth).mean())

    known, transformer = (logits_of(alone.model, part).numpy() for part in ids)
    scores = {
        METHOD: right(transformer),
        f"{METHOD} with its bag": right(logits_of(mixed.model, ids[1]).numpy()),
        f"{METHOD} as delivered": right(logits_of(chosen.model, ids[1]).numpy()),
    }
    for name in SIMPLE:
        of_rows, linear = (_logits(name, table, part.texts, words, classes) for part in (table, held))
        share = share_of(_skill(name, table, words, classes), 0.0)
        ratio = min(max(rms(torch.tensor(known)) / rms(torch.tensor(of_rows)), 1.0), 100.0)
        scores[name] = right(linear)
        scores[f"{METHOD} with {name}"] = right((1 - share) * transformer / ratio + share * linear)
        scores[f"share of {name}"] = share
    return scores


def _logits(
    name: str, table: Table, texts: list[str], words: Vocabulary, classes: list[str]
) -> NDArray[np.float64]:
    """The logits (texts, classes) of a simple model of the table, in the order of the classes."""
    tokenization = words.tokenizer.init_kwargs["tokenization"]
    model = fit_baseline(name, table, words=words, tokenization=tokenization, seed=0)
    return np.asarray(model.outputs(texts))[:, [model.classes.index(label) for label in classes]]


def _skill(name: str, table: Table, words: Vocabulary, classes: list[str]) -> float:
    """`bag_of_words.skill` of a simple model."""
    truth = np.array([classes.index(label) for label in table.single_labels])
    folds, right = StratifiedKFold(FOLDS, shuffle=True, random_state=0), 0
    for learned, rest in folds.split(truth, truth):
        texts = [table.texts[row] for row in rest]
        answers = _logits(name, table.select(learned.tolist()), texts, words, classes).argmax(1)
        right += int((answers == truth[rest]).sum())
    chance = np.bincount(truth).max() / len(truth)
    return max(0.0, float(((right + 1) / (len(truth) + len(classes)) - chance) / (1 - chance)))


def draws(name: str, data: Path, shots: int, seeds: int) -> Iterator[dict[str, float]]:
    """The accuracies of each draw of a set."""
    plan = plan_of(name, data, (METHOD,), (shots,), range(seeds), RUN)
    words = plan.vocabulary(0)
    for seed in plan.seeds:
        pool = plan.split(seed)[0]
        drawn = pool.shots(count=shots, seed=seed)
        rest = np.random.default_rng(seed).permutation(sorted({*range(len(pool))} - {*drawn}))[:SCORED]
        yield accuracies(pool.select(drawn), pool.select(rest.tolist()), words, seed)


def main() -> None:
    """Print a line per draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default="splice,trec,subj")
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    data = data_folder(parser)
    for name in options.sets.split(","):
        for seed, scores in enumerate(draws(name, data, options.shots, options.seeds)):
            print(
                name,
                seed,
                ", ".join(f"{variant} {score:.3f}" for variant, score in scores.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()
