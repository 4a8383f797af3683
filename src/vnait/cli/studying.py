"""Commands on claims and results: study, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vnait import terminal
from vnait.cli.shared import AsJson, Quiet, app, bar, listed, notes, print_json
from vnait.errors import InputError


@app.command("study")
def study_command(
    names: Annotated[list[str], typer.Argument(help="Names from `vnait study list`; all: every short study.")],
    *,
    methods: Annotated[str, typer.Option("--methods", help="Of a suite: names with commas. Without: all.")] = "",
    tasks: Annotated[str, typer.Option("--tasks", help="Of a suite: tasks, or sets, with commas. Without: all.")] = "",
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Of a suite: seeds, or draws of rows. Without: 5.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look: fewer steps and tests, or seeds; of few-labels, 16 labels alone.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            help="Of few-labels: a pretrained encoder beside the methods, frozen; base:own fine-tunes it. Without: none.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where records and figures go, and are read from again. Without: a folder in runs."),
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Cells at a time. Without: one per core.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Put a claim about positions to the test, or compare methods on a suite of tasks; finished cells are not run again."""
    notes(quiet)
    from vnait import studies
    from vnait.studies.suites import SUITES

    if names == ["list"]:
        found = studies.listed()
        print_json({"rows": found}) if as_json else terminal.show_studies(found)
        return
    suites = [name for name in names if name in SUITES]
    if suites and len(names) > 1:
        raise InputError(f"{suites[0]} is a suite with options of its own; run it alone.")
    if base is not None and suites != ["few-labels"]:
        raise InputError(f"--base is for few-labels, and {names[0]} trains no pretrained encoder; leave it out.")
    if suites:
        asked = {
            "methods": listed(methods),
            "tasks": listed(tasks),
            "seeds": seeds or 5,
            "quick": quick,
            "base": base,
            "jobs": jobs,
        }
        _suite(suites[0], out or Path("runs") / suites[0], as_json=as_json, quiet=quiet, asked=asked)
        return
    if methods or tasks or seeds:
        raise InputError(
            f"--methods, --tasks and --seeds are for {', '.join(SUITES)}; a short study has its own arms and seeds."
        )
    out = out or Path("runs") / ("studies-quick" if quick else "studies")
    with bar(quiet, "studying") as move:
        rows = studies.run(names, quick=quick, out=out, jobs=jobs, watch=move)
    report = _report(out)
    if as_json:
        print_json({"rows": rows, "records": str(out), "report": str(report)})
    else:
        terminal.show_verdicts(rows)
        print(f"\nrecords and figures: {out}\nreport: {report}")


def _suite(name: str, out: Path, *, as_json: bool, quiet: bool, asked: dict[str, Any]) -> None:
    from vnait.studies.suites import SUITES, Asked

    with bar(quiet, "training") as move:
        found = SUITES[name](Asked(out=out, watch=move, **asked))
    if as_json:
        print_json({"rows": found.rows, "verdicts": found.verdicts, "records": str(out)})
        return
    found.show()
    for method, verdict in found.verdicts.items():
        print(f"{method}: {': '.join(verdict)}")
    print(f"records: {out}")


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(help="What `vnait compare` or short studies wrote.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Write a folder's results as one page, report.html, that opens anywhere and asks no other machine."""
    path = _report(folder)
    print_json({"report": str(path)}) if as_json else print(path)


def _report(folder: Path) -> Path:
    from vnait import report

    return report.write(folder)
