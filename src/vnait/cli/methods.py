"""Commands on the methods themselves: draw, list, params, conformance."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.cli.output import echo
from vnait.cli.progress import progress
from vnait.cli.shared import AsJson, Quiet, check_folder, out_option, print_json, set_up_logging
from vnait.positions.plugins import load_file

Dim = Annotated[int, option(Panel.OPTIONS, "NUMBER", "Width of the model.", min=1)]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="METHOD", help="Names from `vnait list`; a row per name.", show_default="none"),
]
Example = Annotated[
    list[str] | None,
    option(
        Panel.OPTIONS, "TEXT", "A text for --model; repeat it for more.", "random words", names=["--example"]
    ),
]


@app.command(
    "draw",
    rich_help_panel=Panel.RESEARCH,
    epilog=examples(
        "vnait draw sinusoidal rope vnait -o methods.png",
        'vnait draw --model model --example "not bad at all"',
    ),
)
def draw_command(
    methods: Names = None,
    *,
    length: Annotated[
        int | None,
        option(
            Panel.OPTIONS,
            "TOKENS",
            "Length of a text; its half and quarter are drawn, too.",
            "64",
            min=1,
            max=1024,
        ),
    ] = None,
    dim: Annotated[
        int | None,
        option(Panel.OPTIONS, "NUMBER", "Width of the model.", "128", min=1, max=4096),
    ] = None,
    model: Annotated[
        Path | None,
        option(
            Panel.OPTIONS,
            "MODEL",
            "The folder of a saved model, to draw its trained method.",
            "untrained methods",
        ),
    ] = None,
    text: Example = None,
    out: Annotated[
        Path | None,
        out_option("A .png, .svg or .pdf file.", "FILE", "runs/draw/ and the names of the methods"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw methods: coordinates, codes, similarity of positions."""
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


@app.command(
    "list", rich_help_panel=Panel.RESEARCH, epilog=examples("vnait list", "vnait list --dim 96 --json")
)
def list_command(
    *,
    dim: Dim = 768,
    max_length: Annotated[int, option(Panel.OPTIONS, "TOKENS", "Length of the longest text.", min=1)] = 512,
    as_json: AsJson = False,
) -> None:
    """List all methods: formula, number of parameters, source."""
    from vnait.positions import building

    rows = building.rows(dim=dim, max_length=max_length)
    if as_json:
        print_json({"rows": rows, "dim": dim, "max_length": max_length})
    else:
        from vnait.cli import terminal

        terminal.show_methods(rows, dim=dim, max_length=max_length)


@app.command(
    "params", rich_help_panel=Panel.RESEARCH, epilog=examples("vnait params", "vnait params --dim 96")
)
def params_command(*, dim: Dim = 768, as_json: AsJson = False) -> None:
    """Count the parameters of position tables and of Vnait.

    The numbers, at several sizes, are those of the modules themselves.
    """
    from vnait.cli import terminal
    from vnait.positions.building import sizes

    rows = sizes(dim=dim)
    if as_json:
        print_json({"rows": rows, "dim": dim})
    else:
        terminal.show_sizes(rows, dim=dim)


@app.command(
    "conformance",
    rich_help_panel=Panel.RESEARCH,
    epilog=examples(
        "vnait conformance rope alibi vnait", "vnait conformance peers", "vnait conformance mine.py --json"
    ),
)
def conformance_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Methods, third-party implementations, or a .py file with METHODS; ours: all methods, "
            "peers: all third-party implementations that are installed.",
            show_default="ours peers",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check methods against the laws that each must keep.

    Tries this library's methods and third-party implementations. Exits with 1 if a law is broken.
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
