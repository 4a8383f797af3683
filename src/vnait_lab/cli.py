"""The command `vnait study`."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vnait.cli.help import Panel, examples, option
from vnait.cli.progress import progress
from vnait.cli.shared import AsJson, Backend, Jobs, Quiet, listed, out_option, print_json, set_up_logging
from vnait.shared.errors import InputError

if TYPE_CHECKING:
    from vnait_lab.runners import Outcome


Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME",
        help="Short studies, all of them (all), or one suite: length, elastic, algorithmic, decoding, "
        "few-labels or language. list prints the names.",
    ),
]
Methods = Annotated[
    str, option(Panel.COMPARISON, "NAMES", "The methods of a suite, with commas.", "all methods")
]
Tasks = Annotated[
    str, option(Panel.COMPARISON, "NAMES", "The tasks or data sets of a suite, with commas.", "all tasks")
]
Encoder = Annotated[
    str | None,
    option(
        Panel.COMPARISON,
        "MODEL",
        "For few-labels: a pretrained encoder, compared frozen; the method base:own fine-tunes it.",
        "none",
    ),
]
Seeds = Annotated[
    int | None,
    option(Panel.COMPARISON, "NUMBER", "How many seeds, or draws of rows, of a suite.", "5", min=1),
]
Quick = Annotated[
    bool,
    option(
        Panel.COMPARISON,
        None,
        "Take fewer steps, tests or seeds; few-labels: 16 labels per class alone.",
        names=["--quick"],
    ),
]
Corpus = Annotated[
    Path | None,
    option(
        Panel.COMPARISON,
        "FILE",
        "For language: a file of plain text.",
        "three texts in the folder VNAIT_DATA",
        names=["--corpus"],
    ),
]
Out = Annotated[
    Path | None, out_option("The folder of records and figures.", "FOLDER", "runs/ and the name of the study")
]
EXAMPLES = examples(
    "vnait study list",
    "vnait study order --quick",
    "vnait study few-labels --methods vnait,rope --tasks trec --seeds 3",
)


def study_command(
    names: Names,
    *,
    methods: Methods = "",
    tasks: Tasks = "",
    base: Encoder = None,
    seeds: Seeds = None,
    quick: Quick = False,
    corpus: Corpus = None,
    jobs: Jobs = None,
    backend: Backend = "local",
    out: Out = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Test claims about positions, or compare methods on a suite.

    A suite is a set of tasks with options of its own. The same command resumes after the last finished run.
    """
    set_up_logging(quiet)
    from vnait_lab import studies, terminal
    from vnait_lab.runners import SUITES, Options

    if names == ["list"]:
        rows = studies.listed()
        print_json({"rows": rows}) if as_json else terminal.show_studies(rows)
        return
    suite = _suite_in(names, SUITES)
    if base is not None and suite != "few-labels":
        raise InputError(
            f"--base is for few-labels, and {names[0]} trains no pretrained encoder; leave it out."
        )
    if corpus is not None and suite != "language":
        raise InputError(f"--corpus is for language, and {names[0]} has its own texts; leave it out.")
    if suite is None:
        if methods or tasks or seeds:
            raise InputError(
                f"--methods, --tasks and --seeds are for {', '.join(SUITES)}; a short study has its own "
                "variants and seeds."
            )
        _run_studies(names, quick=quick, out=out, jobs=jobs, backend=backend, as_json=as_json, quiet=quiet)
        return
    out = out or Path("runs") / suite
    with progress(quiet, "training") as callback:
        outcome = SUITES[suite](
            Options(
                methods=listed(methods),
                tasks=listed(tasks),
                seeds=seeds or 5,
                quick=quick,
                base=base,
                corpus=corpus,
                out=out,
                jobs=jobs,
                backend=backend,
                callback=callback,
            )
        )
    _print_outcome(outcome, out, as_json)


def _suite_in(names: list[str], suites: Container[str]) -> str | None:
    """The suite that is named, which must be alone; None if there is none."""
    suite = next((name for name in names if name in suites), None)
    if suite is not None and len(names) > 1:
        raise InputError(f"{suite} is a suite with its own options; run it alone.")
    return suite


def _run_studies(
    names: list[str],
    *,
    quick: bool,
    out: Path | None,
    jobs: int | None,
    backend: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run short studies, print their verdicts and write their report."""
    from vnait.results import report
    from vnait_lab import studies, terminal

    out = out or Path("runs") / ("studies-quick" if quick else "studies")
    with progress(quiet, "studying") as callback:
        rows = studies.run(names, quick=quick, out=out, jobs=jobs, backend=backend, callback=callback)
    page = report.write(out)
    if as_json:
        print_json({"rows": rows, "records": str(out), "report": str(page)})
    else:
        terminal.show_verdicts(rows)
        print(f"\nrecords and figures: {out}\nreport: {page}")


def _print_outcome(outcome: Outcome, out: Path, as_json: bool) -> None:
    if as_json:
        verdicts = {method: [verdict.word, verdict.summary] for method, verdict in outcome.verdicts.items()}
        print_json({"rows": outcome.rows, "verdicts": verdicts, "records": str(out)})
        return
    outcome.show()
    for method, verdict in outcome.verdicts.items():
        print(f"{method}: {verdict.word}: {verdict.summary}")
    print(f"records: {out}")
