"""Commands that make pages: playground, report."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from vnait.cli.output import echo
from vnait.cli.shared import AsJson, app, check_folder, print_json, set_up_logging


@app.command("playground")
def playground_command(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Saved models, or folders of comparisons.")
    ] = None,
    *,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for every machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 7860,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A host name to accept; repeat it for more. Default: this machine's."),
    ] = None,
) -> None:
    """Serve a page for the browser: explanations of a text as you type, by two models."""
    set_up_logging(quiet=False)
    from vnait.cli.playground import serve

    with suppress(KeyboardInterrupt):
        serve(
            folders or [],
            host=host,
            port=port,
            names=name or [],
            ready=lambda address: echo(f"{address}  (Ctrl-C ends it)", flush=True),
        )
    # Open pages would keep the server alive, and Python's exit may wait for a thread that draws a picture.
    os._exit(0)


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder that `vnait compare` or short studies wrote.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Write the results in a folder as one page, report.html, which opens anywhere, offline."""
    check_folder(folder, "`vnait compare` or short studies wrote")
    from vnait.results import report

    path = report.write(folder)
    print_json({"report": str(path)}) if as_json else echo(path)
