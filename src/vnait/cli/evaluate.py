"""The command evaluate."""

from __future__ import annotations

from typing import Annotated

import typer

from vnait.cli import shared
from vnait.data.tasks import CLASSIFICATION, REGRESSION

UNDEFINED = {CLASSIFICATION: ("mcc",), REGRESSION: ("pearson", "spearman")}  # scores that rows may not have


@shared.app.command("evaluate")
@shared.options_of(shared.FileOptions)
def evaluate_command(
    model: shared.ModelFolder,
    data: shared.Data,
    *,
    text: shared.Text = "text",
    label: shared.Label = "label",
    files: shared.FileOptions,
    merge_labels: shared.MergeLabels = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Also the share of texts whose answer has at least this probability, from 0 to 1, and the "
            "accuracy of these answers. Default: none."
        ),
    ] = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Score a saved model on labelled texts."""
    shared.set_up_logging(quiet)
    shared.check_folder(model)
    from vnait.train.predict import evaluate, load

    fitted = load(model)
    table = shared.read_table(
        data,
        text,
        label,
        files,
        task=fitted.task,
        of_tests=True,
        merge_labels=merge_labels,
        known=fitted.classes,
    )
    metrics = evaluate(fitted, table, threshold=threshold)
    if as_json:
        shared.print_json({"model": str(model), "data": data, "rows": len(table), "metrics": metrics})
        return
    from vnait.cli.terminal import show_metrics, show_value

    show_metrics(metrics)
    for name in UNDEFINED.get(fitted.task, ()):
        if name not in metrics:
            show_value(name, "undefined: all labels, or all answers, are the same")
    show_value("rows", f"{len(table):,}")
