"""Commands on labelled text: compare, train, predict, explain."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vnait.cli.output import check_letters, print_rows, say, write_csv
from vnait.cli.shared import (
    AsJson,
    Backend,
    Data,
    Encoding,
    Label,
    LearningRate,
    MaxLength,
    Quiet,
    Separator,
    Steps,
    Task,
    Text,
    Threads,
    Tokenization,
    VectorFile,
    app,
    bar,
    check_folder,
    listed,
    notes,
    print_json,
    read_table,
    setting,
    short,
)
from vnait.errors import InputError, MissingExtra
from vnait.run import RATE, Run, unknown_methods

if TYPE_CHECKING:
    from vnait.data.conllu import Tree
    from vnait.data.vocabulary import Vocabulary
    from vnait.linear import LinearClassifier
    from vnait.predict import Fitted
    from vnait.pretrained.finetune import Base
    from vnait.record import Record
    from vnait.train import Prepared

DEFAULT_DATA = "builtin:polarity"


@app.command("compare")
def compare_command(
    context: typer.Context,
    data: Data = DEFAULT_DATA,
    *,
    text: Text = "text",
    label: Label = "label",
    task: Task = "classification",
    test: Annotated[
        str | None, typer.Option(help="A file of test rows. Without: 30 % held out by each seed.")
    ] = None,
    sep: Separator = None,
    encoding: Encoding = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Names from `vnait list`, with commas. Without: none, sinusoidal, learned, vnait-uniform, "
            "vnait."
        ),
    ] = "",
    shots: Annotated[str, typer.Option(help="Rows per class to learn from, with commas, or all.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Where all of it goes. Without: runs/ and the name of DATA.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="The method that others are paired with. Without: vnait, or the first.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Cells at a time. Without: one per core.")] = None,
    backend: Backend = "local",
    base: Annotated[
        str | None,
        typer.Option(
            help="A pretrained encoder, a folder or hub name: also frozen, fine-tuned, and with any "
            "base:METHOD. Without: none."
        ),
    ] = None,
    vectors: VectorFile = None,
    tokenization: Tokenization = "words",
    steps: Steps = Run.steps,
    max_length: MaxLength = Run.max_length,
    learning_rate: LearningRate = Run.learning_rate,
    threads: Threads = Run.threads,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare positional methods and two baselines on labelled text; keep the best model, and write a report
    of it all.
    """
    notes(quiet)
    counts, names = _shots(shots), listed(methods)
    run = Run(steps=steps, max_length=max_length, learning_rate=learning_rate, threads=threads)
    if wrong := list(unknown_methods(names, base=base is not None)):
        raise InputError("; ".join(wrong) + ".")
    table = read_table(data, text, label, sep, encoding, task)
    tests = None if test is None else read_table(test, text, label, sep, encoding, task)
    folder = out or Path("runs") / short(data)
    from vnait.cli import terminal
    from vnait.comparison import DEFAULT_METHODS, compare

    with bar(quiet, "comparing") as move:
        found = compare(
            table,
            methods=names or DEFAULT_METHODS,
            shots=counts,
            seeds=seeds,
            test=tests,
            out=folder,
            vectors=vectors,
            tokenization=tokenization,
            base=base,
            run=run,
            reference=reference,
            jobs=jobs,
            backend=backend,
            callback=lambda done, total, record: move(done, total, _cell_note(record)),
            command=context.obj,
        )
    files = {"records": found.path} | _drawn({"report": found.report, "picture": found.picture})
    if as_json:
        words = {"best": found.best, "advice": found.advice(), "model": str(folder / "model")}
        paths = {name: path and str(path) for name, path in files.items()}
        print_json({"rows": found.rows, "paired": found.paired, **words, **paths})
        return
    terminal.show_comparison(found, table)
    say(f"\nmodel: {folder / 'model'} ({found.best})")
    for name, path in files.items():
        if path is not None:
            say(f"{name}: {path}")


def _drawn(files: dict[str, Callable[[], Path]]) -> dict[str, Path | None]:
    """The files that were written; None, and a note, where a package for drawing is not installed."""
    drawn: dict[str, Path | None] = {}
    for name, write in files.items():
        try:
            drawn[name] = write()
        except MissingExtra as error:
            drawn[name] = None
            logging.getLogger("vnait").warning("no %s: %s", name, error)
    return drawn


def _shots(given: str) -> tuple[int | str, ...]:
    parts = listed(given)
    wrong = next((part for part in parts if part != "all" and not part.isdecimal()), None)
    if wrong is not None:
        raise InputError(f"--shots {given}: {wrong!r} is neither a number of rows per class nor all.")
    return tuple(part if part == "all" else int(part) for part in parts)


def _cell_note(record: Record | None) -> str:
    if record is None:
        return ""
    from vnait.results import METRICS

    score = next(record.metrics[one.name] for one in METRICS if one.name in record.metrics)
    return f"{record.method} {score:.3f}"


@app.command("train")
def train_command(
    data: Data,
    *,
    out: Annotated[Path, typer.Option(help="The model's folder.")],
    method: Annotated[str, setting("method")] = Run.method,
    base: Annotated[str | None, setting("base")] = Run.base,
    text: Text = "text",
    label: Label = "label",
    task: Task = "classification",
    test: Annotated[str | None, typer.Option(help="A file of test rows. Without: no test scores.")] = None,
    sep: Separator = None,
    encoding: Encoding = None,
    seed: Annotated[int, setting("seed")] = Run.seed,
    vectors: VectorFile = None,
    tune_vectors: Annotated[bool, setting("tune_vectors")] = Run.tune_vectors,
    tokenization: Tokenization = "words",
    steps: Steps = Run.steps,
    max_length: MaxLength = Run.max_length,
    learning_rate: Annotated[
        float | None, typer.Option(help="Of AdamW. Without: 3e-3, and 1e-4 with --base.")
    ] = None,
    smoothness: Annotated[
        str | None,
        typer.Option(
            help=f"{Run.help('smoothness')} Of several, with commas, held-out rows choose. "
            f"Without: {Run.smoothness}."
        ),
    ] = None,
    boundary: Annotated[
        str | None, typer.Option(help=f"{Run.help('boundary')} Also several. Without: {Run.boundary}.")
    ] = None,
    threads: Threads = Run.threads,
    track: Annotated[str | None, setting("track")] = Run.track,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train one classifier, or fine-tune a pretrained one.

    A training that was killed goes on where it was.
    """
    notes(quiet)
    if not out.name:
        raise InputError(f"--out {out} is the folder you are in; choose a new name.")
    if learning_rate is None:
        learning_rate = Run.learning_rate if base is None else RATE
    run = Run(
        method=method,
        base=base,
        seed=seed,
        steps=steps,
        max_length=max_length,
        learning_rate=learning_rate,
        tune_vectors=tune_vectors,
        threads=threads,
        track=track,
    )
    penalties = _penalties(run, smoothness, boundary)
    from vnait.processes import is_first, once_per_node

    def prepared() -> tuple[Prepared, dict[str, Any]]:
        table = read_table(data, text, label, sep, encoding, task)
        tests = None if test is None else read_table(test, text, label, sep, encoding, task)
        from vnait.data import summary
        from vnait.predict import check_replaceable
        from vnait.train import prepare

        check_replaceable(out)
        words = _words(run, table.texts, vectors, tokenization)
        return prepare(run, table, words, test=tests), summary(table, tokenization)

    ready, about = once_per_node(prepared)
    from vnait import card as cards
    from vnait.cli import terminal
    from vnait.files import alone
    from vnait.train import best, forget, train

    folder = out.with_name(out.name + ".checkpoints")
    several = len(penalties) > 1  # then each training has its own folder in that one
    checkpoints = [folder / f"{one:g},{other:g}" if several else folder for one, other in penalties]

    def trained(penalty: tuple[float, float], own: Path) -> Fitted:
        with bar(quiet or not is_first(), f"training {method}") as move:
            return train(
                ready.penalized(*penalty),
                checkpoints=own,
                callback=lambda status: move(status.step, status.steps, f"loss {status.loss:.3f}"),
            )

    with alone(folder) if is_first() else nullcontext():
        tried = list(map(trained, penalties, checkpoints))
        if not is_first():
            return
        fitted = best(tried) if several else tried[0]
        assert fitted.record is not None
        fitted.save(out, extras={cards.NAME: cards.card(fitted.record, about)})
        for own, one in zip(checkpoints, tried, strict=True):
            forget(own, one)
    if as_json:
        print_json({"model": str(out), "record": asdict(fitted.record)})
        return
    terminal.show_scores(fitted.record)
    say(f"model: {out}")


def _penalties(run: Run, smoothness: str | None, boundary: str | None) -> list[tuple[float, float]]:
    """The pairs of gamma_1 and gamma_2 to train with; an error if the method has nothing that they weigh."""
    if smoothness is None and boundary is None:
        return [(run.smoothness, run.boundary)]
    from vnait.methods import build

    span = None if run.base else build(run.method, dim=24, num_heads=2).span
    if span is None:
        raise InputError(
            f"{run.method} has no learned span, which --smoothness and --boundary regularize; leave them "
            "out, or take a method such as vnait-warp."
        )
    if boundary is not None and span.bounds is None:
        raise InputError(
            f"the coordinates of {run.method} have hard bounds, which keep them in (0, 100]; leave "
            "--boundary out."
        )
    options = {"smoothness": smoothness, "boundary": boundary}
    given = {name: _numbers(name, value) for name, value in options.items() if value is not None}
    runs = [
        replace(run, smoothness=one, boundary=other)  # which checks them
        for one, other in product(*(given.get(name, [getattr(run, name)]) for name in options))
    ]
    return [(one.smoothness, one.boundary) for one in runs]


def _numbers(name: str, given: str) -> list[float]:
    try:
        found = list(dict.fromkeys(map(float, listed(given))))
    except ValueError:
        found = []
    if not found:
        raise InputError(f"--{name} {given}: give a number, or several with commas between them.")
    return found


def _words(run: Run, texts: list[str], vectors: str | None, tokenization: str) -> Vocabulary | Base:
    """What makes ids of texts: a vocabulary with its vectors, or the tokenizer of the run's base."""
    from vnait.data.vocabulary import vocabulary_of
    from vnait.pretrained.finetune import Base

    if run.base is None:
        return vocabulary_of(texts, vectors=vectors, tokenization=tokenization, seed=run.seed)
    if vectors is not None or run.tune_vectors or tokenization != "words":
        raise InputError(
            "--base brings its own vectors and tokens; leave --vectors, --tune-vectors, --tokenization out."
        )
    return Base.load(run.base)


@app.command("predict")
def predict_command(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    data: Annotated[
        str,
        typer.Argument(
            help="A file with a column of texts, or - for lines of standard input. Of a model that tags "
            "words also CoNLL-U, or a word per line."
        ),
    ],
    *,
    text: Text = "text",
    sep: Separator = None,
    encoding: Encoding = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file. Without: standard output.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add a label and the probability of each class to every text, or to every word if the model tags."""
    notes(quiet)
    check_folder(model)
    if out is not None and out.exists() and Path(data).exists() and out.samefile(data):
        raise InputError(f"--out {out} is the file that is read, and would be lost; choose a new name.")
    from vnait.data.formats import is_table
    from vnait.data.tables import piped, stream
    from vnait.files import whole_file

    fitted = None
    if data == "-":
        texts = context.with_resource(piped(sys.stdin.buffer if sys.stdin else None))
    elif is_table(data):
        texts = stream(data, text=text, sep=sep, encoding=encoding)
    else:  # columns of words or of texts: the model decides
        from vnait.predict import load

        fitted = load(model)
        texts = stream(data, text=text, sep=sep, encoding=encoding, tags=fitted.tags)
    from vnait.predict import load, table_of

    names, rows = table_of(fitted or load(model), text, texts)
    if as_json:
        print_rows(names, rows)
    elif out is None:
        check_letters(chain(names, texts()))
        write_csv(sys.stdout, names, rows)
    else:
        with whole_file(out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
            count = write_csv(file, names, rows)
        say(f"{count} rows: {out}")


@app.command("explain")
def explain_command(
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    text: Annotated[str | None, typer.Argument(help="One text.")] = None,
    *,
    conllu: Annotated[
        Path | None,
        typer.Option(help="A CoNLL-U file, whose phrases and arcs are shown, too. Without: the text."),
    ] = None,
    sentence: Annotated[int, typer.Option(min=1, help="Which sentence of that file.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg, .pdf or .html file. Without: only printed.")
    ] = None,
    bertviz: Annotated[
        Path | None,
        typer.Option(
            help="An .html file for bertviz's view of the heads, which needs the net. Without: none."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how one text is read: coordinate, gap, rho and weight in the bag of words of each token, the kinds
    of heads, and the method.
    """
    notes(quiet=False)
    if (text is None) == (conllu is None):
        raise InputError("give one text, or a sentence of a file with --conllu.")
    if out is not None or bertviz is not None:
        from vnait.explanation import export
    if out is not None:
        export.check_path(out)
    check_folder(model)
    from vnait.cli import terminal
    from vnait.data.conllu import tree
    from vnait.explanation import explain
    from vnait.files import whole_file
    from vnait.linear import LinearClassifier
    from vnait.predict import load

    given = tree(conllu, sentence) if conllu is not None else text
    assert given is not None
    fitted = load(model)
    if isinstance(fitted, LinearClassifier):
        _explain_baseline(fitted, given, out or bertviz, as_json)
        return
    explanation = explain(fitted, given)
    if bertviz is not None:
        view = export.head_view(explanation)
        with whole_file(bertviz) as draft:
            draft.write_text(view, encoding="utf-8")
    if out is not None:
        export.save(explanation, out)
    if as_json:
        files = {"file": out, "bertviz": bertviz}
        print_json(
            explanation.facts() | {name: str(path) for name, path in files.items() if path is not None}
        )
    else:
        terminal.show_explanation(explanation)
        for path in filter(None, (out, bertviz)):
            say(f"file        {path}")


def _explain_baseline(fitted: LinearClassifier, given: str | Tree, file: Path | None, as_json: bool) -> None:
    if not isinstance(given, str) or file is not None:
        raise InputError(
            f"the model is the baseline {fitted.name}, which has no coordinates and no attention to draw; "
            "leave --out, --bertviz and --conllu out, and its terms are listed."
        )
    facts = fitted.explain(given)
    if as_json:
        print_json(facts)
    else:
        from vnait.cli import terminal

        terminal.show_terms(facts)
