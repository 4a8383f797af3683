"""The command that examines a pretrained model: doctor."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.cli.output import echo
from vnait.cli.progress import progress
from vnait.cli.shared import AsJson, Quiet, listed, print_json, set_up_logging
from vnait.shared.errors import InputError

EXAMPLES = examples(
    "vnait doctor bert-base-uncased",
    "vnait doctor model --rules PAD01,TOK03 --json",
    "vnait doctor model --fail-on trap --ignore LEN01 --sarif findings.sarif",
)


@app.command("doctor", rich_help_panel=Panel.PRETRAINED, epilog=EXAMPLES)
def doctor_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder that save_pretrained or `vnait train` wrote, or a name on the hub.",
        ),
    ],
    *,
    rules: Annotated[str, option(Panel.OPTIONS, "CODES", "Rules to try, with commas.", "all")] = "",
    ignore: Annotated[str, option(Panel.OPTIONS, "CODES", "Rules to leave out, with commas.", "none")] = "",
    fail_on: Annotated[
        Literal["bug", "trap", "limit"],
        option(
            Panel.OPTIONS,
            "SEVERITY",
            "The mildest finding that makes the command exit with 1 [possible values: bug, trap, limit]",
            "bug",
        ),
    ] = "bug",
    sarif: Annotated[
        Path | None,
        option(Panel.OUTPUT, "FILE", "A .sarif file for code scanners.", "only printed"),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check a pretrained text model for faults of position.

    Exits with 1 if a finding is at least as severe as --fail-on.
    """
    set_up_logging(quiet)
    from vnait.pretrained.doctor import doctor
    from vnait.shared.files import atomic_file

    if sarif is not None and sarif.is_dir():
        raise InputError(f"--sarif {sarif} is a folder; give a file.")
    with progress(quiet, "examining") as move:
        report = doctor(model, rules=listed(rules), ignore=listed(ignore), callback=move)
    if sarif is not None:
        with atomic_file(sarif) as draft:
            draft.write_text(json.dumps(report.sarif(), indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_json(report.document())
    else:
        echo(report.text())
    if report.at_least(fail_on):
        raise typer.Exit(1)
