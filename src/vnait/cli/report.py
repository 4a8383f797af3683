"""The command `vnait report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vnait.cli.shared import AsJson, app, print_json


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder that `vnait compare` or short studies wrote.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Write the results in a folder as one page, report.html, which opens anywhere, offline."""
    from vnait import report

    path = report.write(folder)
    print_json({"report": str(path)}) if as_json else print(path)
