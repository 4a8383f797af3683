"""The command evaluate."""

from __future__ import annotations

from typing import Annotated

from vnait.cli import shared
from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.data.tasks import CLASSIFICATION, REGRESSION, TAGGING

UNDEFINED = {  # scores that rows may not have
    CLASSIFICATION: ("mcc",),
    REGRESSION: ("pearson", "spearman"),
    TAGGING: ("entity_f1",),  # of spans
}


EXAMPLES = examples(
    "vnait evaluate model later.csv --text body --label stars",
    "vnait evaluate model later.csv --threshold 0.7 --json",
)


@app.command("evaluate", rich_help_panel=Panel.TRAIN_AND_PREDICT, epilog=EXAMPLES)
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
        option(
            Panel.ANSWERS,
            "PROBABILITY",
            "The least probability of an answer, from 0 to 1: adds the share of texts that have one, and "
            "the accuracy of these answers.",
            "none",
        ),
    ] = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Score a saved model on labelled texts."""
    shared.set_up_logging(quiet)
    shared.check_folder(model)
    from vnait.results.scores import are_spans
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
        if name not in metrics and (fitted.task != TAGGING or are_spans(fitted.classes)):
            show_value(name, "undefined: all labels, or all answers, are the same")
    show_value("rows", f"{len(table):,}")
