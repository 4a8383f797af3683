"""Commands on semantic vectors: vectors train, info, words."""

from pathlib import Path
from typing import Annotated

import typer

from vnait.cli import shared
from vnait.cli.output import echo

vectors_app = typer.Typer(help="Semantic vectors: train and inspect them.", no_args_is_help=True)
shared.app.add_typer(vectors_app, name="vectors")


@vectors_app.command("train")
@shared.options_of(shared.FileOptions)
def vectors_train_command(
    data: shared.Data,
    *,
    out: Annotated[Path, typer.Option(help="A .bin, .txt, .vec or .kv file.")],
    text: shared.Text = "text",
    files: shared.FileOptions,
    dim: Annotated[int, typer.Option(min=1, help="Width of the vectors.")] = 96,
    epochs: Annotated[int, typer.Option(min=1, help="How often every text is read.")] = 20,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer words are left out.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the vectors' start and of the draws.")] = 0,
    tokens: shared.Tokenization = "words",
    as_json: shared.AsJson = False,
) -> None:
    """Train Word2Vec on a column of texts."""
    shared.set_up_logging(quiet=False)
    from vnait import data as texts
    from vnait.data import vectors

    table = shared.read_table(data, text, None, files)
    sentences = texts.words(table.texts, tokens)
    learned = vectors.train(sentences, dim=dim, epochs=epochs, min_count=min_count, seed=seed)
    vectors.save(learned, out)
    shared.print_facts(
        {"words": len(learned.words), "dim": learned.dim, "texts": len(table), "file": str(out)}, as_json
    )


@vectors_app.command("info")
def vectors_info_command(
    path: Annotated[str, typer.Argument(help="A vector file.")], *, as_json: shared.AsJson = False
) -> None:
    """Show format, words and width of a vector file, and how its words are written."""
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


@vectors_app.command("words")
def vectors_words_command(
    texts: Annotated[list[str], typer.Argument(help="Texts, each in quotes.")],
    *,
    tokens: shared.Tokenization = "words",
    as_json: shared.AsJson = False,
) -> None:
    """Show the words that texts are cut into, as a model and a vector file must have them."""
    from vnait import data
    from vnait.data.text import VERSION, unicode_version

    rows = data.words(texts, tokens)
    facts = {"normalization": VERSION, "unicode": unicode_version()}
    if as_json:
        shared.print_json({**facts, "words": rows})
        return
    shared.print_facts(facts, False)
    for row in rows:
        echo(" ".join(row))
