"""The application `vnait`, to which each command adds itself, and its own options."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Annotated

import typer

from vnait.cli.help import Application, Commands, Panel, examples, option
from vnait.positions import plugins
from vnait.shared import files

ABOUT = f"""\
Environment:
  {files.UNPACK_LIMIT}  As --unpack-limit
  VNAIT_DATA          Folder of the data sets that some studies read
  HF_HOME             Folder in which Hugging Face keeps what it downloaded
  NO_COLOR            Progress bars without colours

Exit codes: 0 done; 1 failed, or a check found a fault; 2 wrong use or input;
130 stopped. Results go to standard output, notes to standard error.

`vnait help COMMAND` or `vnait COMMAND -h` shows the options of a command."""

app = Application(
    name="vnait",
    cls=Commands,
    epilog=ABOUT,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"vnait {version('vnait')}")
        raise typer.Exit


@app.callback()
def root(
    plugin: Annotated[
        list[str] | None,
        option(
            Panel.OPTIONS, "FILE.py", "A Python file with METHODS to add; repeat it for more files.", "none"
        ),
    ] = None,
    unpack_limit: Annotated[
        float | None,
        option(
            Panel.OPTIONS,
            "GIB",
            "The size to which a packed, .xlsx or Parquet file may unpack.",
            "1, and 16 for vectors",
        ),
    ] = None,
    _: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Compare positional methods for Transformers on your own labelled text."""
    for path in plugin or []:
        plugins.load_file(path)
    if unpack_limit is not None:
        os.environ[files.UNPACK_LIMIT] = str(unpack_limit)


@app.command("help", hidden=True, epilog=examples("vnait help train", "vnait help vectors info"))
def help_command(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="The command to explain.", show_default="all"),
    ] = None,
) -> None:
    """Print the help of a command."""
    program = context.find_root().command
    program.main(args=[*(command or []), "--help"], prog_name="vnait", standalone_mode=False)
