"""The command predict."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.cli.output import WRITTEN, check_letters, echo, print_rows, write_csv, write_table
from vnait.cli.shared import (
    ENDINGS,
    AsJson,
    FileOptions,
    ModelFolder,
    Quiet,
    Text,
    check_folder,
    listed,
    options_of,
    out_option,
    set_up_logging,
)
from vnait.data.tasks import OTHERWISE
from vnait.shared.errors import InputError

if TYPE_CHECKING:
    from vnait.data.columns import Texts
    from vnait.data.layout import Layout
    from vnait.train.linear import LinearClassifier
    from vnait.train.predict import Fitted

    Model = Fitted | LinearClassifier


Least = Annotated[
    float | None,
    option(
        Panel.ANSWERS,
        "PROBABILITY",
        "The least probability of an answer, from 0 to 1; where no class has it, the label is --otherwise.",
        "the most probable class is the label",
    ),
]
Otherwise = Annotated[
    str,
    option(Panel.ANSWERS, "LABEL", "The label of texts below --threshold."),
]
Keep = Annotated[
    str,
    option(
        Panel.OUTPUT,
        "COLUMNS",
        "Other columns to write as well, with commas, such as id, or all; label becomes label_given.",
        "none",
    ),
]
EXAMPLES = examples(
    "vnait predict model new.csv --text body -o labelled.csv",
    "vnait predict model new.csv --keep id,date > labelled.csv",
    "vnait predict model new.csv --threshold 0.7 --otherwise unsure -o labelled.csv",
    "vnait predict model - < lines.txt",
)


@app.command("predict", rich_help_panel=Panel.TRAIN_AND_PREDICT, epilog=EXAMPLES)
@options_of(FileOptions)
def predict_command(
    context: typer.Context,
    model: ModelFolder,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file with a column of texts, or - for a text per line of standard input. For a model "
            "that tags: also CoNLL-U, or a word per line.",
        ),
    ],
    *,
    text: Text = "text",
    files: FileOptions,
    threshold: Least = None,
    otherwise: Otherwise = OTHERWISE,
    out: Annotated[
        Path | None, out_option("A .csv, .tsv or .xlsx file.", "FILE", "standard output, as CSV")
    ] = None,
    keep: Keep = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Label new texts with a saved model.

    Writes each text with its label and the probability of each class; for a model that tags, a row per word.
    """
    set_up_logging(quiet)
    check_folder(model)
    if out is not None:
        _check_out(out, data)
    if threshold is None and otherwise != OTHERWISE:
        raise InputError("--otherwise is the label of texts below --threshold; give one.")
    if data == "-":
        if keep:
            raise _not_a_table(keep, data)
        fitted, texts = _of_lines(context, model, files.encoding)
    else:
        fitted, texts = _of_file(model, data, text, keep, files.layout)
    from vnait.data.tasks import TAGGING
    from vnait.shared.files import atomic_file
    from vnait.train.predict import Threshold, table_of

    least = None if threshold is None else Threshold(least=threshold, otherwise=otherwise)
    names, rows = table_of(fitted, text, texts, least)
    if keep:
        columns = _kept(data, keep, text, names, files.layout)
        names, rows = _beside(data, columns, text, files.layout, names, rows, fitted.task == TAGGING)
    if as_json:
        print_rows(names, rows)
    elif out is None:
        check_letters(chain(names, texts()))
        write_csv(sys.stdout, names, rows)
    else:
        with atomic_file(out) as draft:
            count = write_table(draft, names, rows)
        echo(f"{count} rows: {out}")
    _log_coverage(fitted, texts)


def _log_coverage(fitted: Model, texts: Texts) -> None:
    from vnait.data.coverage import coverage_of, log_coverage
    from vnait.train.predict import Fitted

    if isinstance(fitted, Fitted) and fitted.record is not None and "coverage" in fitted.record.data:
        log_coverage({"new": coverage_of(texts(), fitted.tokenizer)})


def _check_out(out: Path, data: str) -> None:
    if out.exists() and Path(data).exists() and out.samefile(data):
        raise InputError(f"--out {out} is the file that is read, and would be lost; choose a new name.")
    if (ending := out.suffix.lower()) in ENDINGS and ending not in WRITTEN:
        raise InputError(
            f"--out {out}: let its name end in {', '.join(WRITTEN)}, which can be written, or use --json."
        )


def _not_a_table(keep: str, data: str) -> InputError:
    return InputError(f"--keep {keep} names columns, and {data} is not a table; leave it out.")


def _of_lines(context: typer.Context, model: Path, encoding: str | None) -> tuple[Model, Texts]:
    """The model, and the lines of standard input, which are checked first: it takes seconds to load one."""
    from vnait.data.tables import piped

    texts = context.with_resource(piped(sys.stdin.buffer if sys.stdin else None, encoding))
    fitted = _load(model)
    if fitted.pairs:
        raise InputError("a line of standard input is one text, and the model reads pairs; give a file.")
    return fitted, texts


def _of_file(model: Path, data: str, text: str, keep: str, layout: Layout) -> tuple[Model, Texts]:
    """The model, and the texts of a file; a table is checked first, as in `_of_lines`."""
    from vnait.data.formats import is_table
    from vnait.data.tables import stream
    from vnait.data.tasks import TAGGING

    read = partial(stream, data, text=text, **layout)
    if is_table(data):
        texts = read()
        return _load(model), texts
    fitted = _load(model)  # which decides whether a line of the file is a word or a text
    tags = fitted.task == TAGGING
    if keep and tags:
        raise _not_a_table(keep, data)
    return fitted, read(tags=tags)


def _load(model: Path) -> Model:
    from vnait.train.predict import load

    return load(model)


def _kept(data: str, keep: str, text: str, names: Sequence[str], layout: Layout) -> Sequence[str]:
    """The columns to write as well; all but those that the answers repeat, and the text itself."""
    if keep != "all":
        if not listed(keep):
            raise InputError(f"--keep {keep!r} names no column; give one, or all.")
        return listed(keep)
    from vnait.data.columns import all_columns
    from vnait.data.decoding import same

    columns = all_columns(data, text, **layout)
    if "all" in columns:
        return ["all"]
    written = [same(name) for name in names if not _is_answer(name)]
    return [name for name in columns if name and same(name) not in written]


def _is_answer(name: str) -> bool:
    return name == "label" or name.startswith("probability_")


def _beside(
    data: str,
    keep: Sequence[str],
    text: str,
    layout: Layout,
    names: list[str],
    rows: Iterator[list[object]],
    tags: bool,
) -> tuple[list[str], Iterator[list[object]]]:
    """The table of answers with columns of the file before it, which a model of `tags` repeats per word."""
    from vnait.data.columns import column
    from vnait.data.decoding import same

    answers = list(filter(_is_answer, names))
    others = [same(name) for name in names if name not in answers]
    if again := next((name for name in keep if same(name) in others), None):
        raise InputError(f"--keep {again}: the table has such a column already; leave it out.")
    columns = [column(data, name, text, **layout) for name in keep]
    for cells in columns:  # so that what is wrong with one is found before anything is written
        deque(cells(), maxlen=0)
    extras = zip(*(cells() for cells in columns), strict=True)
    titles = [f"{name}_given" if name in answers else name for name in keep]
    pairs = _by_sentence(extras, rows) if tags else zip(extras, rows, strict=True)
    return [*titles, *names], ([*cells, *row] for cells, row in pairs)


def _by_sentence(
    extras: Iterator[tuple[str, ...]], rows: Iterator[list[object]]
) -> Iterator[tuple[tuple[str, ...], list[object]]]:
    """Each word's row with the cells of its sentence, whose number comes first; a row may have no word."""
    numbered = enumerate(extras, 1)
    number, cells = 0, tuple[str, ...]()
    for row in rows:
        while number != row[0]:
            number, cells = next(numbered)
        yield cells, row
