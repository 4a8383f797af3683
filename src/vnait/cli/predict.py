"""The command predict."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from vnait.cli.output import check_letters, print_rows, say, write_csv
from vnait.cli.shared import AsJson, Encoding, Quiet, Separator, Text, app, check_folder, notes
from vnait.errors import InputError


@app.command("predict")
def predict_command(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    data: Annotated[
        str,
        typer.Argument(
            help="A file with a column of texts, or - for lines of standard input. Of a model that tags "
            "words also CoNLL-U, or a word per line."
        ),
    ],
    *,
    text: Text = "text",
    sep: Separator = None,
    encoding: Encoding = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file. Default: standard output.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add a label and the probability of each class to every text, or to every word if the model tags."""
    notes(quiet)
    check_folder(model)
    if out is not None and out.exists() and Path(data).exists() and out.samefile(data):
        raise InputError(f"--out {out} is the file that is read, and would be lost; choose a new name.")
    from vnait.data.formats import is_table
    from vnait.data.tables import piped, stream
    from vnait.files import whole_file

    fitted = None
    if data == "-":
        texts = context.with_resource(piped(sys.stdin.buffer if sys.stdin else None, encoding))
    elif is_table(data):
        texts = stream(data, text=text, sep=sep, encoding=encoding)
    else:  # columns of words or of texts: the model decides
        from vnait.predict import load

        fitted = load(model)
        texts = stream(data, text=text, sep=sep, encoding=encoding, tags=fitted.tags)
    from vnait.predict import load, table_of

    names, rows = table_of(fitted or load(model), text, texts)
    if as_json:
        print_rows(names, rows)
    elif out is None:
        check_letters(chain(names, texts()))
        write_csv(sys.stdout, names, rows)
    else:
        with whole_file(out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
            count = write_csv(file, names, rows)
        say(f"{count} rows: {out}")
