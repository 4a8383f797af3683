"""The command explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vnait.cli import shared
from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.cli.output import echo
from vnait.cli.progress import progress
from vnait.shared.errors import InputError

if TYPE_CHECKING:
    from vnait.data import Table
    from vnait.results.explanation import Explanation
    from vnait.train.predict import Fitted


EXAMPLES = examples(
    'vnait explain model "not bad at all"',
    'vnait explain model "not bad at all" --class neg -o why.html',
    'vnait explain model "not bad at all" --control reviews.csv --text body',
)
Control = Annotated[
    str | None,
    option(
        Panel.CONTROL,
        "DATA",
        "The file that the model was trained on, read with the options below: trains again with shuffled "
        "labels, and shows those gaps beside the model's.",
        "none",
    ),
]


@app.command("explain", rich_help_panel=Panel.TRAIN_AND_PREDICT, epilog=EXAMPLES)
@shared.options_of(shared.FileOptions, shared.LabelOptions)
def explain_command(
    model: shared.ModelFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One text, in quotes.")],
    *,
    label: Annotated[
        str | None,
        option(Panel.OPTIONS, "LABEL", "The class to explain.", "the answer", names=["--class"]),
    ] = None,
    control: Control = None,
    column: shared.Text = "text",
    labels: shared.Label = "label",
    layout: shared.FileOptions,
    doubtful: shared.LabelOptions,
    out: Annotated[
        Path | None, shared.out_option("A .png, .svg, .pdf or .html file.", "FILE", "only printed")
    ] = None,
    bertviz: Annotated[
        Path | None,
        option(
            Panel.OUTPUT,
            "FILE",
            "An .html file for bertviz's view of the heads, which needs a network.",
            "none",
        ),
    ] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Show why a text has its class.

    Prints what each token adds to the logit, its coordinate, gap and rho, the kind of each attention head,
    and the method.
    """
    shared.set_up_logging(quiet=False)
    if out is not None:
        from vnait.results.explanation.export import check_path

        check_path(out)
    shared.check_folder(model)
    from vnait.results.explanation import explain
    from vnait.train.linear import LinearClassifier
    from vnait.train.predict import load

    fitted = load(model)
    files = {name: path for name, path in (("file", out), ("bertviz", bertviz)) if path is not None}
    if isinstance(fitted, LinearClassifier):
        if bertviz is not None or control is not None:
            raise InputError(
                f"{fitted.name} has no attention and no gaps; leave --bertviz and --control out."
            )
        _show_simple(fitted.explain(text, label), files, as_json)
        return
    explanation = explain(fitted, text, label=label)
    if control is not None:
        table = shared.read_table(control, column, labels, layout, **asdict(doubtful))
        explanation = _beside_control(explanation, fitted, text, table)
    _show(explanation, files, as_json)


def _show(explanation: Explanation, files: Mapping[str, Path], as_json: bool) -> None:
    _write(explanation, files)
    if as_json:
        shared.print_json(explanation.facts() | {name: str(path) for name, path in files.items()})
        return
    from vnait.cli import terminal

    terminal.show_explanation(explanation)
    for path in files.values():
        echo(f"file        {path}")


def _show_simple(facts: dict[str, Any], files: Mapping[str, Path], as_json: bool) -> None:
    if files:
        from vnait.results.explanation import simple

        simple.save(facts, files["file"])
    if as_json:
        shared.print_json(facts | {name: str(path) for name, path in files.items()})
        return
    from vnait.cli import terminal

    terminal.show_terms(facts)
    for path in files.values():
        echo(f"file        {path}")


def _beside_control(explanation: Explanation, fitted: Fitted, text: str, table: Table) -> Explanation:
    """The explanation with the gaps of a training on shuffled labels."""
    from vnait.results.explanation import explain
    from vnait.train.control import shuffled

    if not explanation.learns_gaps:
        raise InputError(
            f"{explanation.method} learns no gaps that a control could check; leave --control out."
        )
    with progress(False, "training the control") as move:
        model = shuffled(
            fitted,
            table,
            callback=lambda status: move(status.step, status.steps, f"loss {status.loss:.3f}"),
        )
    return replace(explanation, control=explain(model, text).gaps)


def _write(explanation: Explanation, files: Mapping[str, Path]) -> None:
    if not files:
        return
    from vnait.results.explanation import export  # matplotlib, which a printed explanation does not need
    from vnait.shared.escaping import safe
    from vnait.shared.files import atomic_file

    if "bertviz" in files:
        view = export.head_view(explanation)
        with atomic_file(files["bertviz"]) as draft:
            draft.write_text(safe(view), encoding="utf-8")
    if "file" in files:
        export.save(explanation, files["file"])
