"""The pages of --help as plain text: usage, what a command does, its options in groups, examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from textwrap import fill
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

Row = tuple[str, str]  # a name, and what it is for
Rows = dict[str, list[Row]]  # by the title of their group
COLUMN = 24  # characters of the left column, at most; a longer name has a line of its own


class Panel(StrEnum):
    """The groups of commands on the first page, and of options on the page of a command."""

    TRAIN_AND_PREDICT = "Train and predict"
    PRETRAINED = "Pretrained models"
    RESEARCH = "Research"
    FILES = "Files"

    OPTIONS = "Options"
    DATA = "Data"
    LAYOUT = "File layout"
    COMPARISON = "Comparison"
    MODEL = "Model"
    TRAINING = "Training"
    ANSWERS = "Answers"
    CONTROL = "Control"
    OUTPUT = "Output"


class Application(typer.Typer):
    """A typer application whose commands show these pages."""

    def command(self, name: str | None = None, **options: Any) -> Callable[..., Any]:
        """As typer's; the class is `Command` unless one is given."""
        return super().command(name, **{"cls": Command, **options})


class Command(TyperCommand):
    """A command with a page of plain text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(self, ctx, formatter.width))


class Commands(TyperGroup):
    """A group of commands with a page of plain text, which is also shown if no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer's; without arguments the page is printed, as wrong use."""
        if not args:
            print(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(self, ctx, formatter.width))


def option(
    panel: Panel,
    metavar: str | None,
    text: str,
    default: str | bool = True,
    *,
    names: Sequence[str] = (),
    **limits: Any,
) -> Any:
    """An option, and what it is if left out: the parameter's default, or a description of it.

    Without `names` it has the name of its parameter; without a metavar it is a flag, which needs a name.
    """
    return typer.Option(
        *names, rich_help_panel=panel, metavar=metavar, help=text, show_default=default, **limits
    )


def flag(panel: Panel, text: str, *names: str) -> Any:
    """An option without a value."""
    return typer.Option(*names, rich_help_panel=panel, help=text)


def examples(*commands: str) -> str:
    """The end of a page: commands to copy."""
    return "\n  ".join(["Examples:", *commands])


def page(command: Any, context: Any, width: int) -> str:
    """The help of a command, in lines of at most `width` characters."""
    parts = [_usage(command, context, width)]
    parts += [_filled(paragraph, width) for paragraph in (command.help or "").split("\n\n")]
    parts += [*_sections(_commands(command), width), *_sections(_parameters(command, context), width)]
    return "\n\n".join([*parts, command.epilog or ""]).rstrip()


def meaning(parameter: Any) -> str:
    """What an option or an argument is for, and its value where it is left out."""
    text, default = (parameter.help or "").rstrip("."), parameter.show_default
    if default is True:
        has_none = parameter.required or getattr(parameter, "is_flag", False)
        default = "" if has_none or parameter.default is None else str(parameter.default)
    return f"{text} [default: {default}]" if default else text


def _usage(command: Any, context: Any, width: int) -> str:
    words = ["[OPTIONS]"]
    words += [
        f"{item.opts[0]} {_value(item)}" for item in command.params if _is_option(item) and item.required
    ]
    words += [_argument(item) for item in command.params if not _is_option(item)]
    words += ["COMMAND"] if hasattr(command, "commands") else []
    start = f"Usage: {context.command_path} "
    return _filled(" ".join(words), width, start, " " * len(start))


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _value(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _argument(argument: Any) -> str:
    name = _value(argument) if argument.required else f"[{_value(argument)}]"
    return name if argument.nargs == 1 else f"{name}..."


def _commands(command: Any) -> Rows:
    rows: Rows = {}
    for name, part in getattr(command, "commands", {}).items():
        if not part.hidden:
            summary = (part.help or "").split("\n\n")[0].rstrip(".")
            rows.setdefault(part.rich_help_panel or "Commands", []).append((name, summary))
    return rows


def _parameters(command: Any, context: Any) -> Rows:
    """Arguments and options, with --help in the last group of these."""
    rows: Rows = {}
    panel = str(Panel.OPTIONS)
    for item in command.params:
        if item.hidden:
            continue
        if _is_option(item):
            panel = item.rich_help_panel or panel
            rows.setdefault(panel, []).append((_names(item), meaning(item)))
        else:
            rows.setdefault("Arguments", []).append((_value(item), meaning(item)))
    names = ", ".join(sorted(context.help_option_names, key=len))
    rows.setdefault(panel, []).append((names, "Print this help"))
    return {title: _aligned(group) for title, group in rows.items()}


def _names(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {_value(option)}"


def _aligned(rows: list[Row]) -> list[Row]:
    """Rows whose long names are below one another, where some have a short name before them."""
    has_short = any(name.startswith("-") and not name.startswith("--") for name, _ in rows)
    return [(f"    {name}" if has_short and name.startswith("--") else name, text) for name, text in rows]


def _sections(rows: Rows, width: int) -> list[str]:
    """A title and its rows in two columns, which all sections share."""
    column = min(COLUMN, max((len(name) for group in rows.values() for name, _ in group), default=0))
    blank = " " * (column + 4)
    sections = []
    for title, group in rows.items():
        lines = [f"{title}:"]
        for name, text in group:
            lines += [f"  {name}"] * (len(name) > column)
            start = blank if len(name) > column else f"  {name:{column}}  "
            lines.append(_filled(text, width, start, blank))
        sections.append("\n".join(lines))
    return sections


def _filled(text: str, width: int, start: str = "", indent: str = "") -> str:
    """Text in lines, which do not part [default: from a value."""
    whole = re.sub(r"(\[[\w ]+:) ", "\\1\xa0", text)
    lines = fill(
        whole,
        width,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace("\xa0", " ")
