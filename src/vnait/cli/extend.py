"""The command that compares ways to read long texts: extend."""

from pathlib import Path
from typing import Annotated

import typer

from vnait.cli import shared
from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.cli.output import echo
from vnait.cli.progress import progress
from vnait.shared.errors import InputError

Documents = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="Your own documents, a file as for `vnait compare`.",
        show_default="generated texts alone, and news for a language model",
    ),
]
Limit = Annotated[
    int | None,
    option(Panel.COMPARISON, "TOKENS", "Texts up to this length are read unchanged.", "the model's limit"),
]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder or name that sentence-transformers loads, or the folder or GGUF file of a "
        "language model.",
    ),
]
Texts = Annotated[
    int | None,
    option(
        Panel.COMPARISON,
        "NUMBER",
        "Texts per kind and length, 2 to 30; of a language model from 1.",
        "20, and 4 for a language model",
    ),
]
Results = Annotated[
    Path | None,
    option(
        Panel.OUTPUT,
        "FILE",
        "A .jsonl file of results, from which the same command resumes.",
        "runs/extend/ and the name of MODEL",
    ),
]
Out = Annotated[
    Path | None, shared.out_option("The folder of the extended model.", "FOLDER", "only compared")
]
Save = Annotated[
    str | None,
    option(Panel.OUTPUT, "NAME", "The variant to save in --out.", "the recommended one"),
]
To = Annotated[
    int,
    option(Panel.COMPARISON, "TOKENS", "The longest text."),
]
Query = Annotated[
    str | None,
    option(Panel.DATA, "COLUMN", "The column of queries, one per text.", "labels instead"),
]
Variants = Annotated[
    str,
    option(
        Panel.COMPARISON,
        "NAMES",
        "Ways to read long texts, with commas, such as cut,windows-mean,yarn.",
        "all that can read the model",
    ),
]
Generated = Annotated[
    str,
    option(
        Panel.COMPARISON,
        "KINDS",
        "Kinds of generated texts that hide a passage, with commas [possible values: passkey, needle, none]",
        names=["--generated"],
    ),
]
Lengths = Annotated[
    str,
    option(Panel.COMPARISON, "TOKENS", "Lengths of generated texts, with commas.", "256, 512 and so on"),
]
EXAMPLES = examples(
    "vnait extend sentence-transformers/all-MiniLM-L6-v2 --to 2048",
    "vnait extend model questions.csv --text answer --query question",
    "vnait extend model reviews.csv --label stars --generated none",
    "vnait extend model --variants ntk,yarn -o long",
)


@app.command("extend", rich_help_panel=Panel.PRETRAINED, epilog=EXAMPLES)
@shared.options_of(shared.FileOptions)
def extend_command(
    model: Model,
    data: Documents = None,
    *,
    text: shared.Text = "text",
    query: Query = None,
    label: shared.Label = "label",
    files: shared.FileOptions,
    to: To = 4096,
    limit: Limit = None,
    variants: Variants = "",
    tasks: Generated = "passkey,needle",
    lengths: Lengths = "",
    texts: Texts = None,
    results: Results = None,
    out: Out = None,
    save: Save = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Compare ways to read texts beyond a model's limit, and save one.

    For embedders and language models, without training. The same command resumes after the last finished
    result.
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
    if label != "label":
        raise InputError("documents have either queries or labels; give --query or --label, not both.")
    columns = {"documents": text, "queries": query}
    return {name: shared.read_table(data, column, None, files).texts for name, column in columns.items()}
