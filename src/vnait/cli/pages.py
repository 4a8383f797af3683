"""Commands that make pages: playground, report."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.cli.output import echo
from vnait.cli.shared import AsJson, check_folder, print_json, set_up_logging


@app.command(
    "playground",
    rich_help_panel=Panel.TRAIN_AND_PREDICT,
    epilog=examples("vnait playground model", "vnait playground runs/reviews tuned --port 8000"),
)
def playground_command(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER", help="Saved models, or folders of comparisons.", show_default="none"
        ),
    ] = None,
    *,
    host: Annotated[
        str,
        option(Panel.OPTIONS, "ADDRESS", "The address to listen on; 0.0.0.0 is open to every machine."),
    ] = "127.0.0.1",
    port: Annotated[int, option(Panel.OPTIONS, "NUMBER", "The port to listen on.", min=1, max=65535)] = 7860,
    name: Annotated[
        list[str] | None,
        option(
            Panel.OPTIONS,
            "HOST",
            "A host name under which the page answers; repeat it for more.",
            "this machine's",
        ),
    ] = None,
) -> None:
    """Explain texts in the browser while you type.

    Shows two models side by side, on this machine only unless --host changes that.
    """
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


@app.command("report", rich_help_panel=Panel.FILES, epilog=examples("vnait report runs/reviews"))
def report_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A folder that `vnait compare` or short studies wrote."),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Write the results of a folder as one page, report.html.

    The page opens in every browser, without a network.
    """
    check_folder(folder, "`vnait compare` or short studies wrote")
    from vnait.results import report

    path = report.write(folder)
    print_json({"report": str(path)}) if as_json else echo(path)
