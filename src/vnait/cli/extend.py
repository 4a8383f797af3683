"""The command that compares ways to read long texts: extend."""

from pathlib import Path
from typing import Annotated

import typer

from vnait.cli import shared
from vnait.cli.output import echo
from vnait.cli.progress import progress
from vnait.shared.errors import InputError

Documents = Annotated[
    str | None,
    typer.Argument(
        help="Your own documents, a file as for compare. Default: generated texts alone; of a language model "
        "news."
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(help="Texts up to this many tokens are read unchanged. Default: the model's limit."),
]
Model = Annotated[
    str,
    typer.Argument(
        help="A folder or name that sentence-transformers loads, or the folder or GGUF file of a "
        "language model."
    ),
]
Texts = Annotated[
    int | None,
    typer.Option(help="Texts per task and length, 2 to 30. Default: 20; of a language model 4."),
]
Results = Annotated[
    Path | None,
    typer.Option(
        help="A file for each result at once, from which the same command goes on. Default: in "
        "runs/extend, by the model's name."
    ),
]
Out = Annotated[Path | None, typer.Option(help="A folder for the extended model. Default: only compared.")]
Save = Annotated[str | None, typer.Option(help="The variant to save. Default: the recommended one.")]


@shared.app.command("extend")
@shared.options_of(shared.FileOptions)
def extend_command(
    model: Model,
    data: Documents = None,
    *,
    to: Annotated[int, typer.Option(help="The longest text, in tokens.")] = 4096,
    limit: Limit = None,
    text: Annotated[str, typer.Option(help="The column of documents.")] = "text",
    query: Annotated[
        str | None, typer.Option(help="The column of queries, one per document. Default: labels.")
    ] = None,
    label: Annotated[str, typer.Option(help="The column of labels, if there are no queries.")] = "label",
    variants: Annotated[
        str, typer.Option(help="Ways to read long texts, with commas. Default: all that are possible.")
    ] = "",
    tasks: Annotated[
        str,
        typer.Option(
            help="Generated texts: passkey, needle, with a comma; or none. A language model goes on "
            "with a passage that they hide."
        ),
    ] = "passkey,needle",
    lengths: Annotated[
        str, typer.Option(help="Lengths of generated texts, in tokens. Default: 256, 512 and so on.")
    ] = "",
    texts: Texts = None,
    results: Results = None,
    out: Out = None,
    save: Save = None,
    files: shared.FileOptions,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Compare methods for texts longer than an embedder's or a language model's limit, and save one.

    The same command goes on after the last finished result.
    """
    shared.set_up_logging(quiet)
    documents = _documents(model, data, text, query, label, files)
    numbers = _lengths(lengths)
    if save is not None and out is None:
        raise InputError(f"--save {save} needs a folder; give --out, too.")
    from vnait.pretrained.extend import extend

    with progress(quiet, "extending") as move:
        report = extend(
            model,
            to=to,
            limit=limit,
            variants=shared.listed(variants),
            tasks=() if tasks == "none" else shared.listed(tasks),
            lengths=numbers,
            texts=texts,
            results=results or Path("runs") / "extend" / f"{Path(model).name}.jsonl",
            out=out,
            save=save,
            callback=move,
            **documents,
        )
    if as_json:
        shared.print_json(report.document())
    else:
        echo(report.text())


def _lengths(lengths: str) -> tuple[int, ...]:
    numbers = shared.listed(lengths)
    if wrong := next((number for number in numbers if not number.isdecimal()), None):
        raise InputError(f"--lengths has {wrong!r}; give numbers with commas between them, such as 512,1024.")
    return tuple(map(int, numbers))


def _documents(
    model: str,
    data: str | None,
    text: str,
    query: str | None,
    label: str,
    files: shared.FileOptions,
) -> dict[str, list[str]]:
    """The user's documents with their queries, or with their labels if no column of queries is named; alone
    for a language model; empty without a file.
    """
    if data is None:
        options = {"--text": text != "text", "--query": query, "--label": label != "label"}
        if column := next((name for name, is_set in options.items() if is_set), None):
            raise InputError(f"{column} names a column, and there is no file; give one after the model.")
        return {}
    if query is None:
        from vnait.pretrained.extend.decoder import is_language_model

        if is_language_model(model):
            return {"documents": shared.read_table(data, text, None, files).texts}
        table = shared.read_table(data, text, label, files)
        return {"documents": table.texts, "labels": table.labels or []}
    columns = {"documents": text, "queries": query}
    return {name: shared.read_table(data, column, None, files).texts for name, column in columns.items()}
