"""The command explain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vnait.cli.output import echo
from vnait.cli.shared import AsJson, ModelFolder, app, check_folder, print_json, set_up_logging
from vnait.shared.errors import InputError

if TYPE_CHECKING:
    from vnait.results.explanation import Explanation
    from vnait.train.linear import LinearClassifier


@app.command("explain")
def explain_command(
    model: ModelFolder,
    text: Annotated[str, typer.Argument(help="One text.")],
    *,
    label: Annotated[
        str | None, typer.Option("--class", help="The class to explain. Default: the answer.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg, .pdf or .html file. Default: only printed.")
    ] = None,
    bertviz: Annotated[
        Path | None,
        typer.Option(
            help="An .html file for bertviz's view of the heads, which needs a network. Default: none."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show why a text has its class: what each token adds to the logit, its coordinate, gap and rho, the kind
    of each head, and the method.
    """
    set_up_logging(quiet=False)
    if out is not None:
        from vnait.results.explanation.export import check_path

        check_path(out)
    check_folder(model)
    from vnait.results.explanation import explain
    from vnait.train.linear import LinearClassifier
    from vnait.train.predict import load

    fitted = load(model)
    if isinstance(fitted, LinearClassifier):
        _explain_baseline(fitted, text, label, out or bertviz, as_json)
        return
    explanation = explain(fitted, text, label=label)
    files = {name: path for name, path in (("file", out), ("bertviz", bertviz)) if path is not None}
    _write(explanation, files)
    if as_json:
        print_json(explanation.facts() | {name: str(path) for name, path in files.items()})
        return
    from vnait.cli import terminal

    terminal.show_explanation(explanation)
    for path in files.values():
        echo(f"file        {path}")


def _write(explanation: Explanation, files: Mapping[str, Path]) -> None:
    if not files:
        return
    from vnait.results.explanation import export  # matplotlib, which a printed explanation does not need
    from vnait.shared.files import atomic_file

    if "bertviz" in files:
        view = export.head_view(explanation)
        with atomic_file(files["bertviz"]) as draft:
            draft.write_text(view, encoding="utf-8")
    if "file" in files:
        export.save(explanation, files["file"])


def _explain_baseline(
    fitted: LinearClassifier, text: str, label: str | None, file: Path | None, as_json: bool
) -> None:
    if file is not None:
        raise InputError(
            f"the model is the baseline {fitted.name}, which has no coordinates and no attention to draw; "
            "leave --out and --bertviz out, and its terms are listed."
        )
    facts = fitted.explain(text, label)
    if as_json:
        print_json(facts)
    else:
        from vnait.cli import terminal

        terminal.show_terms(facts)
