"""The command evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vnait.cli.output import echo
from vnait.cli.shared import (
    AsJson,
    Data,
    Encoding,
    Label,
    Quiet,
    Separator,
    Text,
    app,
    check_folder,
    print_json,
    read_table,
    set_up_logging,
)


@app.command("evaluate")
def evaluate_command(
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    data: Data,
    *,
    text: Text = "text",
    label: Label = "label",
    sep: Separator = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score a saved model on labelled texts."""
    set_up_logging(quiet)
    check_folder(model)
    from vnait.predict import evaluate, load

    fitted = load(model)
    table = read_table(data, text, label, sep, encoding, fitted.task, of_tests=True)
    metrics = evaluate(fitted, table)
    if as_json:
        print_json({"model": str(model), "data": data, "rows": len(table), "metrics": metrics})
        return
    from vnait.cli.terminal import show_metrics

    show_metrics(metrics)
    echo(f"{'rows':22} {len(table):,}")
