"""Long experiments, each a command: `python -m vnait_lab.runs.NAME --help`. Here is what their command lines
share.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from vnait.record import Record


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A command line whose --help starts with a module's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def names(text: str) -> tuple[str, ...]:
    """An option's value: names with commas."""
    return tuple(text.split(","))


def numbers(text: str) -> tuple[int, ...]:
    """An option's value: whole numbers with commas."""
    return tuple(map(int, text.split(",")))


def data_folder(command: argparse.ArgumentParser, contents: str) -> Path:
    """The folder VNAIT_DATA; wrong use if it is not set."""
    folder = os.environ.get("VNAIT_DATA")
    if folder is None:
        command.error(f"VNAIT_DATA is not set; set it to a folder with {contents}.")
    return Path(folder)


def show_progress(done: int, total: int, record: Record | None) -> None:
    """A callback that prints how many cells are done."""
    print(f"{done} of {total}", flush=True)
