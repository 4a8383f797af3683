"""Commands on the methods themselves: draw, list, params, conformance."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vnait import terminal
from vnait.cli.shared import AsJson, Quiet, app, bar, notes, print_json


@app.command("draw")
def draw_command(
    methods: Annotated[list[str] | None, typer.Argument(help="Names from `vnait list`, a row each.")] = None,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", help="A .png, .svg or .pdf file. Without: in runs/draw, by the names.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option("--length", min=1, max=1024, help="Tokens; half and a quarter are shown, too. Without: 64."),
    ] = None,
    dim: Annotated[
        int | None, typer.Option("--dim", min=1, max=4096, help="Width of the vectors. Without: 128.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="A model's folder: its method, as trained. Without: methods as they start."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="With --model: a text to show it; again for more. Without: random words."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw what methods tell: coordinates, codes, similarity of positions and its decay, a row a method."""
    notes(quiet=True)
    from vnait import drawing

    names = methods or []
    rows = [*names, "trained"] if model is not None else names
    file = "-".join(rows) if len(rows) <= 4 else f"{len(rows)}-methods"
    fitted = None
    if model is not None:
        from vnait.predict import load_transformer

        fitted = load_transformer(model)
    shown = drawing.asked(names, fitted=fitted, texts=text or [], length=length, dim=dim)
    out = drawing.checked(out or Path("runs") / "draw" / f"{file}.png")
    figure = drawing.figure(shown)
    drawing.save(figure, out)
    if as_json:
        panels = zip(shown, drawing.titles(figure), strict=True)
        found = [{"method": one.name, "note": one.note, "panels": titles} for one, titles in panels]
        print_json({"rows": found, "file": str(out)})
    else:
        print(out)


@app.command("list")
def list_command(
    *,
    dim: Annotated[int, typer.Option("--dim", min=1, help="Width of the model.")] = 768,
    max_length: Annotated[int, typer.Option("--max-length", min=1, help="Longest text.")] = 512,
    as_json: AsJson = False,
) -> None:
    """List every method: formula, learned parameters, whether a decoder may use it, source."""
    from vnait.methods import catalogue

    rows = catalogue(dim=dim, max_length=max_length)
    if as_json:
        print_json({"rows": rows, "dim": dim, "max_length": max_length})
    else:
        terminal.show_catalogue(rows, dim=dim, max_length=max_length)


@app.command("params")
def params_command(
    *,
    dim: Annotated[int, typer.Option("--dim", min=1, help="Width of the model.")] = 768,
    as_json: AsJson = False,
) -> None:
    """Count the parameters of tables and of Vnait at several sizes, on the real modules."""
    from vnait.methods import sizes

    rows = sizes(dim=dim)
    if as_json:
        print_json({"rows": rows, "dim": dim})
    else:
        terminal.show_sizes(rows, dim=dim)


@app.command("conformance")
def conformance_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Methods, peers or their libraries; ours or peers for all of them. Without: both."),
    ] = None,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Try positional methods, ours and other libraries', on the laws that each must keep; exit 1 where one is broken."""
    notes(quiet)
    from vnait import laws

    tried = [subject for name in names or ("ours", "peers") for subject in laws.subjects(name)]
    unique = list({subject.name: subject for subject in tried}.values())
    with bar(quiet, "trying") as move:
        rows = laws.conformance(unique, watch=move)
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        terminal.show_conformance(rows)
    if any(row.passed is False for row in rows):
        raise typer.Exit(1)
