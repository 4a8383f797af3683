"""The laboratory's plugin for the library (entry point `vnait.plugins`): the command `vnait study`, parts of
other libraries, reports on studies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from vnait.cli.help import Panel
from vnait_lab.cli import EXAMPLES, study_command

if TYPE_CHECKING:
    from vnait.positions.conformance_suite import Subject
    from vnait.positions.conformance_suite.subjects import Formula
    from vnait.results.page.sections import Section
    from vnait.results.record import Record


def commands(app: typer.Typer) -> None:
    """Add `vnait study`."""
    app.command("study", rich_help_panel=Panel.RESEARCH, epilog=EXAMPLES)(study_command)


def subjects() -> dict[str, Callable[[], list[Subject]]]:
    """Implementations by other libraries."""
    from vnait_lab.peers.subjects import by_name

    return by_name()


def formulas() -> dict[str, Formula]:
    """The papers' formulas, by the names of the library's methods."""
    from vnait_lab.peers.formulas import FORMULAS

    return FORMULAS


def report(folder: Path, records: Sequence[Record]) -> tuple[str, Iterator[Section]] | None:
    """The report of a folder that `vnait study` wrote."""
    from vnait_lab.report import report as of_studies

    return of_studies(folder, records)
