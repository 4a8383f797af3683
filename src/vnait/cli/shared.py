"""What commands share: options, how a table is read, and what is printed where."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from vnait.bases import Base
    from vnait.lexicon import Lexicon
    from vnait.text import Table
    from vnait.train import Run, Status

app = typer.Typer(
    name="vnait",
    help="Where is each token, and how should a Transformer be told? Compare positional methods on your own labelled text.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

aside = Console(stderr=True)

Data = Annotated[
    str, typer.Argument(help="A CSV, TSV, JSONL, Parquet or .xlsx file, hf:NAME, builtin:splice or builtin:polarity.")
]
Separator = Annotated[
    str | None, typer.Option("--sep", help="What separates the fields: , ; | or tab. Without: found in the file.")
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="Of the file, such as cp1252. Without: by its mark, else UTF-8.")
]
Text = Annotated[str, typer.Option("--text", help="The column of texts.")]
Label = Annotated[str, typer.Option("--label", help="The column of labels.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")]
VectorFile = Annotated[
    str | None, typer.Option("--vectors", help="A file of semantic vectors. Without: Word2Vec on the texts themselves.")
]
Tokenization = Annotated[str, typer.Option("--tokens", help="words, characters (for DNA and the like) or jieba.")]
Steps = Annotated[int | None, typer.Option("--steps", help="Optimizer steps at most.")]
MaxLength = Annotated[int, typer.Option("--max-length", help="Longer texts are cut to so many tokens.")]
LearningRate = Annotated[float, typer.Option("--learning-rate")]


def notes(quiet: bool) -> None:
    """What the library has to say goes to standard error, a line each."""
    logger = logging.getLogger("vnait")
    logger.handlers[:] = [logging.StreamHandler()]
    logger.handlers[0].setFormatter(logging.Formatter("vnait: %(message)s"))
    logger.setLevel(logging.ERROR if quiet else logging.INFO)
    logger.propagate = False


def read_table(source: str, text: str, label: str | None, sep: str | None, encoding: str | None) -> Table:
    """The table of a source; no label: its texts alone. Neither torch nor anything else that is slow is loaded for it."""
    from vnait.text.tables import read

    return read(source, text=text, label=label, sep=sep, encoding=encoding)


def words_of(texts: Sequence[str], *, base: str | None, vectors: str | None, tokens: str, seed: int) -> Lexicon | Base:
    """A pretrained base, or the semantic vectors of the texts: looked up in a file, or learned."""
    from vnait import bases, lexicon

    if base is not None:
        return bases.Base.load(base)
    if vectors is not None:
        return lexicon.look_up(texts, vectors, tokenization=tokens)
    return lexicon.learn(texts, tokenization=tokens, seed=seed)


def run_of(*, steps: int | None, max_length: int, learning_rate: float) -> Run:
    """The settings of a training, as a command has them."""
    from vnait.train import Run

    return Run(steps=steps, max_length=max_length, learning_rate=learning_rate)


def listed(names: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(filter(None, map(str.strip, names.split(","))))


def print_json(document: dict[str, Any]) -> None:
    """One document on standard output."""
    print(json.dumps(document, ensure_ascii=False, indent=2))


def print_facts(facts: dict[str, Any], as_json: bool) -> None:
    """A few facts, a line each or as JSON."""
    if as_json:
        print_json(facts)
    else:
        for name, value in facts.items():
            print(f"{name:10} {', '.join(map(str, value)) if isinstance(value, list) else value}")


@contextmanager
def bar(quiet: bool, title: str) -> Iterator[Any]:
    """A progress bar on standard error, where that is a terminal: call it with (done, total, note)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=aside, disable=quiet or not aside.is_terminal, transient=True) as progress:
        task = progress.add_task(title, total=None, note="")
        yield lambda done, total, note: progress.update(task, completed=done, total=total, note=note)


def moved(move: Any, status: Status) -> None:
    """Move a bar by what a training says."""
    move(status.step, status.steps, f"loss {status.loss:.3f}")
