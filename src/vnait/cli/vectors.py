"""Commands on semantic vectors: vectors train, info, words."""

from pathlib import Path
from typing import Annotated

import typer

from vnait.cli import shared
from vnait.cli.application import app
from vnait.cli.help import Application, Commands, Panel, examples, option
from vnait.cli.output import echo

Dim = Annotated[
    int,
    option(Panel.TRAINING, "NUMBER", "Width of the vectors.", min=1),
]
MinCount = Annotated[
    int,
    option(Panel.TRAINING, "NUMBER", "Leave out words that occur less often.", min=1),
]
Epochs = Annotated[
    int,
    option(Panel.TRAINING, "NUMBER", "How often each text is read.", min=1),
]
Seed = Annotated[
    int,
    option(Panel.TRAINING, "NUMBER", "Seed of the initial vectors and of draws."),
]

vectors_app = Application(cls=Commands, help="Train and inspect files of semantic vectors.")
app.add_typer(vectors_app, name="vectors", rich_help_panel=Panel.FILES)


@vectors_app.command(
    "train", epilog=examples("vnait vectors train reviews.csv --text body -o words.bin --dim 64")
)
@shared.options_of(shared.FileOptions)
def vectors_train_command(
    data: shared.Data,
    *,
    text: shared.Text = "text",
    files: shared.FileOptions,
    tokenization: shared.Tokenization = "words",
    dim: Dim = 96,
    min_count: MinCount = 2,
    epochs: Epochs = 20,
    seed: Seed = 0,
    out: Annotated[Path, shared.out_option("The file to write, .bin, .txt, .vec or .kv.", "FILE")],
    as_json: shared.AsJson = False,
) -> None:
    """Train Word2Vec on a column of texts."""
    shared.set_up_logging(quiet=False)
    from vnait import data as texts
    from vnait.data import vectors

    table = shared.read_table(data, text, None, files)
    sentences = texts.words(table.texts, tokenization)
    learned = vectors.train(sentences, dim=dim, epochs=epochs, min_count=min_count, seed=seed)
    vectors.save(learned, out)
    shared.print_facts(
        {"words": len(learned.words), "dim": learned.dim, "texts": len(table), "file": str(out)}, as_json
    )


@vectors_app.command("info", epilog=examples("vnait vectors info words.bin"))
def vectors_info_command(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A file of vectors.")],
    *,
    as_json: shared.AsJson = False,
) -> None:
    """Print the format, words and width of a file."""
    from vnait.data import vectors

    facts = vectors.info(path)
    written = vectors.spelling(vectors.words_in(path))
    if as_json:
        shared.print_json({**facts, **written})
        return
    scripts = ", ".join(f"{name} {share:.1%}" for name, share in written.pop("scripts").items())
    examples = ", ".join(written.pop("examples"))
    shares = {name.replace("_", " "): f"{share:.1%}" for name, share in written.items()}
    lines = {**shares, "scripts": scripts, "examples": examples or "none"}
    shared.print_facts({**facts, **{name: line.replace("%", " %") for name, line in lines.items()}}, False)


@vectors_app.command("words", epilog=examples('vnait vectors words "not bad at all" "A DULL film"'))
def vectors_words_command(
    texts: Annotated[list[str], typer.Argument(metavar="TEXT", help="Texts, each in quotes.")],
    *,
    tokenization: shared.Tokenization = "words",
    as_json: shared.AsJson = False,
) -> None:
    """Print the words that texts are cut into.

    A model and a file of vectors must have them in this form.
    """
    from vnait import data
    from vnait.data.text import VERSION, unicode_version

    rows = data.words(texts, tokenization)
    facts = {"normalization": VERSION, "unicode": unicode_version()}
    if as_json:
        shared.print_json({**facts, "words": rows})
        return
    shared.print_facts(facts, False)
    for row in rows:
        echo(" ".join(row))
