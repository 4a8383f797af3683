"""The long studies, which compare all methods and take hours: what `vnait study length` runs, and what it says."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vnait import terminal
from vnait.errors import InputError
from vnait.methods import METHODS, build
from vnait.record import Record
from vnait.suites import algorithmic, decoding, few_labels, length
from vnait.suites.algorithms import ALGORITHMS
from vnait.suites.questions import QUESTIONS
from vnait.suites.tasks import TASKS


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The command's options; no methods or tasks: all of them."""

    methods: Sequence[str]
    tasks: Sequence[str]
    seeds: int
    quick: bool
    base: str | None
    out: Path
    jobs: int | None
    watch: Callable[[int, int, str], None]

    @property
    def path(self) -> Path:
        """The file of records."""
        return self.out / "records.jsonl"

    def moved(self, done: int, total: int, record: Record | None) -> None:
        """One cell more."""
        self.watch(done, total, "" if record is None else f"{record.method} {record.data['name']}")


@dataclass(frozen=True, kw_only=True)
class Found:
    """Its rows, how they are shown, and the verdict."""

    rows: list[dict[str, Any]]
    show: Callable[[], None]
    verdicts: dict[str, tuple[str, str]]


def _rows(asked: Asked, suite: Any, *, methods: tuple[str, ...], tasks: tuple[str, ...]) -> list[dict[str, Any]]:
    """The summary of a suite of generated tasks, a module of `vnait.suites`; these methods and tasks where none were asked for."""
    found = suite.run_suite(
        methods=asked.methods or methods,
        tasks=asked.tasks or tasks,
        seeds=range(asked.seeds),
        setting=suite.QUICK if asked.quick else suite.Setting(),
        path=asked.path,
        jobs=asked.jobs,
        watch=asked.moved,
    )
    rows: list[dict[str, Any]] = suite.summary(found)
    return rows


def _judged(asked: Asked, verdict: tuple[str, str]) -> tuple[str, str]:
    """The verdict; a quick look decides nothing, since the claims are of the whole budget."""
    return ("undecided", f"{verdict[1]}; --quick is a look and decides nothing") if asked.quick else verdict


def study_length(asked: Asked) -> Found:
    """Trained on 8 to 40 tokens, tested up to 500."""
    rows = _rows(asked, length, methods=tuple(METHODS), tasks=tuple(TASKS))
    own = dict.fromkeys(row["method"] for row in rows if row["method"].startswith("vnait"))
    return Found(
        rows=rows,
        show=lambda: terminal.show_lengths(rows, length.LENGTHS),
        verdicts={method: _judged(asked, length.verdict(rows, method)) for method in own},
    )


def study_algorithmic(asked: Asked) -> Found:
    """The fifteen tasks of Deletang et al., trained on 1 to 40 symbols, tested up to 500."""
    rows = _rows(asked, algorithmic, methods=tuple(METHODS), tasks=tuple(ALGORITHMS))
    return Found(
        rows=rows,
        show=lambda: terminal.show_shares(algorithmic.overall(rows), name="method"),
        verdicts={"vnait": _judged(asked, algorithmic.verdict(rows, "vnait"))},
    )


def study_decoding(asked: Asked) -> Found:
    """The ten tasks of Kazemnejad et al. for a decoder, trained up to half of the longest question; causal methods."""
    causal = tuple(name for name in METHODS if build(name, dim=64, num_heads=4).causal)
    rows = _rows(asked, decoding, methods=causal, tasks=tuple(QUESTIONS))
    return Found(
        rows=rows,
        show=lambda: terminal.show_shares(decoding.overall(rows), name="method"),
        verdicts={"vnait-causal": _judged(asked, decoding.verdict(rows, "vnait-causal"))},
    )


def study_few_labels(asked: Asked) -> Found:
    """8 to 128 labels per class of the real sets in the folder VNAIT_DATA; seeds are draws of rows."""
    data = os.environ.get("VNAIT_DATA")
    if data is None:
        raise InputError("VNAIT_DATA is not set; set it to a folder with a folder a set (train.csv and test.csv).")
    found = few_labels.run_suite(
        data=data,
        methods=asked.methods or tuple(METHODS),
        sets=asked.tasks or tuple(few_labels.SETS),
        shots=(few_labels.QUICK,) if asked.quick else few_labels.SHOTS,
        seeds=tuple(range(asked.seeds)),
        base=asked.base,
        out=asked.out,
        jobs=asked.jobs or os.cpu_count() or 1,
        watch=lambda name, done, total, record: asked.watch(
            done, total, name if record is None else f"{name} {record.method}"
        ),
    )
    areas = [{"set": row["set"], "method": row["method"], "area": row["mean"]} for row in few_labels.areas(found)]
    return Found(
        rows=few_labels.rows(found),
        show=lambda: terminal.show_shares(areas, name="set"),
        verdicts={"vnait": few_labels.verdict(found)},
    )


SUITES = {
    "length": study_length,
    "algorithmic": study_algorithmic,
    "decoding": study_decoding,
    "few-labels": study_few_labels,
}
