"""The long studies, which compare all methods on a suite: `vnait study length` and the like."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vnait.positions.building import build
from vnait.positions.methods import METHODS
from vnait.results.record import Record
from vnait.shared.errors import InputError
from vnait_lab import terminal
from vnait_lab.study import Verdict
from vnait_lab.suites import algorithmic, decoding, elastic, few_labels, fillers, language, length
from vnait_lab.suites.suite import Score, Standing, Suite, Training, check


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command's options. Without methods or tasks: all of them."""

    methods: Sequence[str]
    tasks: Sequence[str]
    seeds: int
    quick: bool
    base: str | None
    corpus: Path | None
    out: Path
    jobs: int | None
    backend: str = "local"
    callback: Callable[[int, int, str], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The rows for --json, a function that prints them, and the verdict per method."""

    rows: list[dict[str, Any]]
    show: Callable[[], None]
    verdicts: dict[str, Verdict]


def study_length(options: Options) -> Outcome:
    """Trained on 8 to 40 tokens, tested up to 500."""
    scores = _scores(options, length.SUITE, length.QUICK, METHODS)
    return _by_length(options, [scores], length.LENGTHS, length.verdict)


def study_elastic(options: Options) -> Outcome:
    """Texts with filler, trained on 8 to 40 tokens, tested up to 500; what counts must be counted."""
    plain = replace(options, tasks=options.tasks or tuple(fillers.TASKS))
    parts = [_scores(plain, elastic.SUITE, length.QUICK, METHODS)]
    if not options.tasks:  # the control with an oracle's help decides which tasks count
        helped = replace(options, methods=[elastic.CONTROL], tasks=tuple(fillers.ORACLES))
        parts.append(_scores(helped, elastic.SUITE, length.QUICK, METHODS))
    return _by_length(options, parts, elastic.LENGTHS, elastic.verdict)


def study_algorithmic(options: Options) -> Outcome:
    """The fifteen tasks of Deletang et al., trained on 1 to 40 symbols, tested up to 500."""
    scores = _scores(options, algorithmic.SUITE, algorithmic.QUICK, METHODS)
    return _ranked(options, scores, algorithmic.overall(scores), "vnait", algorithmic.verdict)


def study_decoding(options: Options) -> Outcome:
    """The ten tasks of Kazemnejad et al. for a decoder, trained up to half of the longest question; causal
    methods.
    """
    causal = (name for name in METHODS if build(name, dim=64, num_heads=4).causal)
    scores = _scores(options, decoding.SUITE, decoding.QUICK, causal)
    return _ranked(options, scores, decoding.overall(scores), "vnait-causal", decoding.verdict)


def study_few_labels(options: Options) -> Outcome:
    """8 to 128 labels per class of the real sets in the folder VNAIT_DATA; seeds are draws of rows."""
    data = _data_folder("one folder per set (train.csv and test.csv)")

    def callback(name: str, done: int, total: int, record: Record | None) -> None:
        options.callback(done, total, name if record is None else f"{name} {record.method}")

    records = few_labels.run_suite(
        data=data,
        methods=options.methods or tuple(METHODS),
        sets=options.tasks or tuple(few_labels.SETS),
        shots=(few_labels.QUICK,) if options.quick else few_labels.SHOTS,
        seeds=tuple(range(options.seeds)),
        base=options.base,
        out=options.out,
        jobs=options.jobs,
        backend=options.backend,
        callback=callback,
    )
    areas = [
        {"set": row["set"], "method": row["method"], "area": row["mean"]} for row in few_labels.areas(records)
    ]
    return Outcome(
        rows=few_labels.rows(records),
        show=lambda: terminal.show_shares(areas, name="set"),
        verdicts={"vnait": few_labels.verdict(records)},
    )


def study_language(options: Options) -> Outcome:
    """Models of the next token (causal methods) and of masked tokens, trained on 64 tokens, read at up to
    2,048; of a text file, or of three texts in the folder VNAIT_DATA.
    """
    if options.corpus is not None:
        tasks = language.tasks_of_file(options.corpus)
    else:
        folder = _data_folder("wikitext2, tinyshakespeare and eprstmt, or give --corpus FILE")
        tasks = language.tasks_of_data(Path(folder))
    suite = language.suite_of(tasks)
    check("task", options.tasks or tuple(tasks), tasks)
    causal = {name for name in METHODS if build(name, dim=64, num_heads=4).causal}
    methods = options.methods or tuple(METHODS)
    records: list[Record] = []
    for masked in (False, True):
        names = [name for name in options.tasks or tasks if tasks[name].masked == masked]
        able = [method for method in methods if masked or method not in METHODS or method in causal]
        if names and able:
            records += _records(replace(options, methods=able, tasks=names), suite, language.QUICK, METHODS)
    return Outcome(
        rows=language.rows(records),
        show=lambda: terminal.show_losses(language.rows(records), language.LENGTHS),
        verdicts={
            f"{method}, {what}": _judged(options, language.verdict(records, method, masked=masked))
            for method, what, masked in (("vnait-causal", "next", False), ("vnait", "masked", True))
        },
    )


def _data_folder(contents: str) -> str:
    """The folder VNAIT_DATA."""
    data = os.environ.get("VNAIT_DATA")
    if data is None:
        raise InputError(f"VNAIT_DATA is not set; set it to a folder with {contents}.")
    return data


def _scores(options: Options, suite: Suite, quick: Training, methods: Iterable[str]) -> list[Score]:
    """The suite's summary; `methods` if the command names none."""
    return suite.summary(_records(options, suite, quick, methods))


def _records(options: Options, suite: Suite, quick: Training, methods: Iterable[str]) -> list[Record]:
    """What the suite has run; `methods` if the command names none."""

    def callback(done: int, total: int, record: Record | None) -> None:
        options.callback(done, total, "" if record is None else f"{record.method} {record.data['name']}")

    return suite.run(
        methods=options.methods or tuple(methods),
        tasks=options.tasks or tuple(suite.tasks),
        seeds=range(options.seeds),
        setting=quick if options.quick else suite.setting,
        path=options.out / "records.jsonl",
        jobs=options.jobs,
        backend=options.backend,
        callback=callback,
    )


def _by_length(
    options: Options,
    parts: Sequence[list[Score]],
    lengths: Sequence[int],
    verdict: Callable[[list[Score], str], Verdict],
) -> Outcome:
    """The outcome of a suite with a table per length of each part, and the verdicts on this project's
    methods.
    """
    rows = [[score.row() | {"learned": length.learned(score)} for score in part] for part in parts]
    scores = [score for part in parts for score in part]
    ours = dict.fromkeys(score.method for score in parts[0] if score.method.startswith("vnait"))

    def show() -> None:
        for part in rows:
            terminal.show_lengths(part, lengths)

    return Outcome(
        rows=[row for part in rows for row in part],
        show=show,
        verdicts={method: _judged(options, verdict(scores, method)) for method in ours},
    )


def _ranked(
    options: Options,
    scores: list[Score],
    overall: list[Standing],
    method: str,
    verdict: Callable[[list[Score], str], Verdict],
) -> Outcome:
    """The outcome of a suite that ranks methods by means over tasks, and the verdict on one of them."""
    means = [standing.row() for standing in overall]
    return Outcome(
        rows=[score.row() for score in scores],
        show=lambda: terminal.show_shares(means, name="method"),
        verdicts={method: _judged(options, verdict(scores, method))},
    )


def _judged(options: Options, verdict: Verdict) -> Verdict:
    """The verdict; undecided after a quick run, since the claims are about the full setting."""
    if options.quick:
        return Verdict("undecided", f"{verdict.summary}; --quick is a look and decides nothing")
    return verdict


SUITES = {
    "length": study_length,
    "elastic": study_elastic,
    "algorithmic": study_algorithmic,
    "decoding": study_decoding,
    "few-labels": study_few_labels,
    "language": study_language,
}
