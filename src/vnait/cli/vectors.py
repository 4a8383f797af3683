"""Commands on semantic vectors: vectors train, info."""

from pathlib import Path
from typing import Annotated

import typer

from vnait.cli import shared

vectors_app = typer.Typer(help="Semantic vectors: train and inspect them.", no_args_is_help=True)
shared.app.add_typer(vectors_app, name="vectors")


@vectors_app.command("train")
def vectors_train_command(
    data: shared.Data,
    *,
    out: Annotated[Path, typer.Option(help="A .bin, .txt, .vec or .kv file.")],
    text: shared.Text = "text",
    sep: shared.Separator = None,
    encoding: shared.Encoding = None,
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

    table = shared.read_table(data, text, None, sep, encoding)
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
    """Show format, words and width of a vector file."""
    from vnait.data import vectors

    shared.print_facts(vectors.info(path), as_json)
