"""The command line. Results go to standard output, everything else to standard error; 0 done, 1 a failed run,
2 wrong use, 130 stopped.
"""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

# They add their commands to the app, in the order of --help.
# isort: off
from vnait.cli import compare, train, predict, evaluate, explain, doctor, extend, methods, pages, vectors  # noqa: F401

# isort: on
from vnait.cli.application import app
from vnait.cli.output import echo, prepare_streams, to_nowhere
from vnait.positions.plugins import call_plugins
from vnait.shared.errors import InputError
from vnait.shared.files import home

__all__ = ["app", "main"]

call_plugins("commands", app)

STOPPED = 130  # the exit code of what Ctrl-C ended

# UsageError: typer carries a click of its own, and of its errors only the subclass BadParameter is public.
_WRONG_USE: Any = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    try:
        prepare_streams()
        words = _at_home(sys.argv[1:] if arguments is None else arguments)
        typed = shlex.join(["vnait", *words])
        # typer catches Ctrl-C itself
        code = app(args=words, prog_name="vnait", standalone_mode=False, obj=typed)
        sys.stdout.flush()  # while a closed pipe can still be caught
    except (typer.Abort, KeyboardInterrupt):
        code = STOPPED
    except _WRONG_USE as error:
        message = error.format_message().rstrip(".")
        if "--plugin" in message:  # an option of vnait itself
            message += ": it comes before the command, as in vnait --plugin FILE.py compare"
        path = error.ctx.command_path if error.ctx else "vnait"
        joint = " See" if message.endswith("?") else "; see"
        sys.exit(_said(f"{message}{joint} {path} --help.", 2))
    except BrokenPipeError:
        _read_enough()
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):  # for which typer exits with 1
            raise
        _read_enough()
    except (InputError, OSError) as error:
        sys.exit(_said(error, 2))
    except (FloatingPointError, MemoryError) as error:
        sys.exit(_said(error, 1))
    if code == STOPPED:
        _said("stopped; the same command goes on from what was finished.", STOPPED)
    if code:
        sys.exit(code)


def _read_enough() -> NoReturn:
    """Leave with 0: a reader such as `head` has closed the pipe."""
    to_nowhere(sys.stdout)
    sys.exit(0)


def _at_home(arguments: Sequence[str]) -> list[str]:
    """The arguments, with the home folder for ~ where a shell leaves it: --out=~/model, -o~/model or -o
    '~/model'; of an argument without an option, which may be a text, only where that exists.

    >>> _at_home(["explain", "model", "~/ is a text"])
    ['explain', 'model', '~/ is a text']
    """
    words: list[str] = []
    for word, before in zip(arguments, ["", *arguments], strict=False):
        parts = re.fullmatch(r"(--[^=]+=|-[a-zA-Z])?(~/.*)", word, re.DOTALL)
        if parts and (parts[1] or re.match("-[-a-z]", before) or os.path.exists(home(parts[2]))):
            word = (parts[1] or "") + home(parts[2])
        words.append(word)
    return words


def _said(error: object, code: int) -> int:
    echo(f"vnait: {' '.join(str(error).split())}", file=sys.stderr)
    return code
