"""Commands on the methods themselves: draw, list, params, conformance."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vnait.cli.output import echo
from vnait.cli.progress import progress
from vnait.cli.shared import AsJson, Quiet, app, check_folder, print_json, set_up_logging
from vnait.positions.plugins import load_file


@app.command("draw")
def draw_command(
    methods: Annotated[
        list[str] | None, typer.Argument(help="Names from `vnait list`; a row per name.")
    ] = None,
    *,
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .pdf file. Default: in runs/draw, by the names.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Tokens; half and a quarter are drawn, too. Default: 64."),
    ] = None,
    dim: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Width of the vectors. Default: 128.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A model's folder; draws its trained method. Default: untrained methods."),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="With --model: a text; repeat for more. Default: random words.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw methods, a row each: coordinates, codes, similarity of positions and its decay."""
    set_up_logging(quiet=True)
    if model is not None:
        check_folder(model)
    from vnait.results import drawing

    names = methods or []
    rows = [*names, "trained"] if model is not None else names
    file = "-".join(rows) if len(rows) <= 4 else f"{len(rows)}-methods"
    fitted = None
    if model is not None:
        from vnait.train.predict import load_transformer

        fitted = load_transformer(model)
    examples = drawing.from_options(names, fitted=fitted, texts=text or [], length=length, dim=dim)
    out = drawing.check_path(out or Path("runs") / "draw" / f"{file}.png")
    figure = drawing.figure(examples)
    drawing.save(figure, out)
    if as_json:
        panels = zip(examples, drawing.titles(figure), strict=True)
        drawn = [
            {"method": example.name, "note": example.note, "panels": titles} for example, titles in panels
        ]
        print_json({"rows": drawn, "file": str(out)})
    else:
        echo(out)


@app.command("list")
def list_command(
    *,
    dim: Annotated[int, typer.Option(min=1, help="Width of the model.")] = 768,
    max_length: Annotated[int, typer.Option(min=1, help="Longest text, in tokens.")] = 512,
    as_json: AsJson = False,
) -> None:
    """List every method: formula, number of parameters, learned or not, causal or not, source."""
    from vnait.positions import building

    rows = building.rows(dim=dim, max_length=max_length)
    if as_json:
        print_json({"rows": rows, "dim": dim, "max_length": max_length})
    else:
        from vnait.cli import terminal

        terminal.show_methods(rows, dim=dim, max_length=max_length)


@app.command("params")
def params_command(
    *, dim: Annotated[int, typer.Option(min=1, help="Width of the model.")] = 768, as_json: AsJson = False
) -> None:
    """Count the parameters of tables and of Vnait at several sizes, from the modules themselves."""
    from vnait.cli import terminal
    from vnait.positions.building import sizes

    rows = sizes(dim=dim)
    if as_json:
        print_json({"rows": rows, "dim": dim})
    else:
        terminal.show_sizes(rows, dim=dim)


@app.command("conformance")
def conformance_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Methods, a .py file with METHODS, or parts of other libraries; ours, peers: all of each. "
            "Default: both."
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check positional methods, ours and those of other libraries, against the laws that each must keep; exit
    1 if a law is broken.
    """
    set_up_logging(quiet)
    from vnait.cli import terminal
    from vnait.positions import conformance_suite as laws

    wanted = [method for name in names or ("ours", "peers") for method in _methods_of(name)]
    tried = [subject for name in wanted for subject in laws.subjects(name)]
    unique = list({subject.name: subject for subject in tried}.values())
    with progress(quiet, "checking") as move:
        rows = laws.conformance(unique, callback=move)
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        terminal.show_conformance(rows)
    if any(row.passed is False for row in rows):
        raise typer.Exit(1)


def _methods_of(name: str) -> list[str]:
    """The name itself, or the methods that a Python file adds."""
    return load_file(name) if name.endswith(".py") else [name]
