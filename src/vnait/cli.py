"""The command line. Results go to standard output, everything else to standard error; 0 done, 1 a failed run, 2 wrong use."""

from __future__ import annotations

import csv
import json
import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from vnait import terminal
from vnait.errors import InputError

if TYPE_CHECKING:
    from vnait.bases import Base
    from vnait.lexicon import Lexicon
    from vnait.record import Record
    from vnait.text import Table
    from vnait.train import Run, Status

app = typer.Typer(
    name="vnait",
    help="Where is each token, and how should a Transformer be told? Compare positional methods on your own labelled text.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
vectors_app = typer.Typer(help="Semantic vectors: train, inspect and convert them.", no_args_is_help=True)
app.add_typer(vectors_app, name="vectors")

aside = Console(stderr=True)

DEFAULT_DATA = "builtin:polarity"
STOPPED = 130  # the exit code of what Ctrl-C ended

# UsageError: typer carries a click of its own, and of its errors only the subclass BadParameter is public.
_WRONG_USE: Any = typer.BadParameter.__mro__[1]

Data = Annotated[str, typer.Argument(help="A CSV, TSV, JSONL or Parquet file, hf:NAME, or builtin:polarity.")]
Text = Annotated[str, typer.Option("--text", help="The column of texts.")]
Label = Annotated[str, typer.Option("--label", help="The column of labels.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")]
VectorFile = Annotated[
    str | None, typer.Option("--vectors", help="A file of semantic vectors. Without: Word2Vec on the texts themselves.")
]
Tokenization = Annotated[str, typer.Option("--tokens", help="words, characters (for DNA and the like) or jieba.")]
Steps = Annotated[int | None, typer.Option("--steps", help="Optimizer steps at most.")]
MaxLength = Annotated[int, typer.Option("--max-length", help="Longer texts are cut to so many tokens.")]
LearningRate = Annotated[float, typer.Option("--learning-rate")]


@app.command("compare")
def compare_command(
    context: typer.Context,
    data: Data = DEFAULT_DATA,
    *,
    text: Text = "text",
    label: Label = "label",
    test: Annotated[
        str | None, typer.Option("--test", help="A file of test rows. Without: 30 % held out by each seed.")
    ] = None,
    methods: Annotated[str, typer.Option("--methods", help="Names from `vnait list`, with commas.")] = "",
    shots: Annotated[str, typer.Option("--shots", help="Rows a class to learn from, with commas, or all.")] = "all",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 5,
    out: Annotated[Path | None, typer.Option("--out", help="Where records and the winner go.")] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="The method that others are paired with.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Cells at a time. Without: one a core.")] = None,
    backend: Annotated[str, typer.Option("--backend", help="local or ray.")] = "local",
    vectors: VectorFile = None,
    tokens: Tokenization = "words",
    steps: Steps = None,
    max_length: MaxLength = 512,
    learning_rate: LearningRate = 1e-3,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare positional methods and two baselines on labelled text; keep the best model, and write a report of it all."""
    _notes(quiet)
    from vnait.comparison import DEFAULT_METHODS, compare

    table = _read(data, text, label)
    folder = out or Path("runs") / _short(data)
    run = _run(steps=steps, max_length=max_length, learning_rate=learning_rate)
    with _bar(quiet, "comparing") as move:
        found = compare(
            table,
            methods=_listed(methods) or DEFAULT_METHODS,
            shots=_shots(shots),
            seeds=seeds,
            test=None if test is None else _read(test, text, label),
            out=folder,
            vectors=vectors,
            tokenization=tokens,
            run=run,
            reference=reference,
            jobs=jobs,
            backend=backend,
            watch=lambda done, total, record: move(done, total, _cell_note(record)),
            command=context.obj,
        )
    report = found.report()
    if as_json:
        _print_json(
            {
                "rows": found.rows,
                "paired": found.paired,
                "best": found.best,
                "records": str(found.path),
                "model": str(folder / "model"),
                "report": str(report),
            }
        )
        return
    terminal.show_comparison(found, table)
    print(f"\nbest on validation: {found.best}\nmodel: {folder / 'model'}\nrecords: {found.path}\nreport: {report}")


@app.command("train")
def train_command(
    data: Data,
    *,
    out: Annotated[Path, typer.Option("--out", help="The model's folder.")],
    method: Annotated[
        str, typer.Option("--method", help="A name from `vnait list`; with --base also own, its own positions.")
    ] = "vnait",
    base: Annotated[
        str | None, typer.Option("--base", help="A pretrained encoder to fine-tune: a folder, or a name on the hub.")
    ] = None,
    text: Text = "text",
    label: Label = "label",
    test: Annotated[str | None, typer.Option("--test", help="A file of test rows.")] = None,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    vectors: VectorFile = None,
    tune_vectors: Annotated[bool, typer.Option("--tune-vectors", help="Train the semantic vectors too.")] = False,
    tokens: Tokenization = "words",
    steps: Steps = None,
    max_length: MaxLength = 512,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Without: 1e-3, and 1e-4 with --base.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train one classifier, or fine-tune a pretrained one. A training that was killed goes on where it was."""
    _notes(quiet)
    from vnait import card as cards
    from vnait.predict import check_replaceable
    from vnait.text import summary
    from vnait.train import fit, forget

    check_replaceable(out)
    if base is not None and (vectors is not None or tune_vectors or tokens != "words"):
        raise InputError("--base brings its own vectors and tokens; leave --vectors, --tune-vectors and --tokens out.")
    run = _run(steps=steps, max_length=max_length, learning_rate=learning_rate or (1e-3 if base is None else 1e-4))
    run = replace(run, method=method, seed=seed, tune_vectors=tune_vectors, base=base)
    table = _read(data, text, label)
    tests = None if test is None else _read(test, text, label)
    words = _words(table.texts, base=base, vectors=vectors, tokens=tokens, seed=seed)
    checkpoints = out.with_name(out.name + ".checkpoints")
    with _bar(quiet, f"training {method}") as move:
        fitted = fit(run, table, words, test=tests, checkpoints=checkpoints, watch=lambda status: _moved(move, status))
    assert fitted.record is not None
    fitted.save(out, extras={cards.NAME: cards.card(fitted.record, summary(table, tokens))})
    forget(checkpoints, fitted)
    if as_json:
        _print_json({"model": str(out), "record": asdict(fitted.record)})
        return
    terminal.show_scores(fitted.record)
    print(f"model: {out}")


@app.command("predict")
def predict_command(
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    data: Annotated[str, typer.Argument(help="A file with a column of texts, or - for lines of standard input.")],
    *,
    text: Text = "text",
    out: Annotated[Path | None, typer.Option("--out", help="A CSV file. Without: standard output.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add a label and the probability of each class to every text, in the order given."""
    _notes(quiet)
    from vnait.files import whole_file
    from vnait.predict import load
    from vnait.text import encode, report_unknown

    fitted = load(model)
    given = _lines(sys.stdin.buffer) if data == "-" else _read(data, text, None).texts
    report_unknown(fitted.tokenizer, encode(fitted.tokenizer, given, max_length=sys.maxsize))
    probabilities = fitted.probabilities(given)
    column = "text" if text == "label" or text.startswith("probability_") else text  # the answers need these names
    rows = [
        {column: words, "label": fitted.classes[int(row.argmax())]}
        | {f"probability_{name}": round(float(value), 6) for name, value in zip(fitted.classes, row, strict=True)}
        for words, row in zip(given, probabilities, strict=True)
    ]
    if as_json:
        _print_json({"rows": rows})
    elif out is None:
        _write_csv(sys.stdout, rows)
    else:
        with whole_file(out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
            _write_csv(file, rows)
        print(f"{len(rows)} rows: {out}")


@app.command("explain")
def explain_command(
    model: Annotated[Path, typer.Argument(help="A model's folder.")],
    text: Annotated[str, typer.Argument(help="One text.")],
    *,
    out: Annotated[Path | None, typer.Option("--out", help="A .png, .svg or .html file to draw it in.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show each token's coordinate, gap and rho, what kinds of heads read them, and the positional method that is active."""
    _notes(quiet=False)
    from vnait.explanation import explain
    from vnait.predict import load

    if out is not None:
        from vnait.explanation import output

        output.checked(out)
    if not text.strip():
        raise InputError("the text is empty; give some words to explain.")
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        raise InputError("the text is not UTF-8; give it in UTF-8.")
    explanation = explain(load(model), text)
    if out is not None:
        output.save(explanation, out)
    if as_json:
        _print_json(explanation.facts() | ({} if out is None else {"file": str(out)}))
    else:
        terminal.show_explanation(explanation)
        if out is not None:
            print(f"file        {out}")


@app.command("draw")
def draw_command(
    methods: Annotated[list[str] | None, typer.Argument(help="Names from `vnait list`, a row each.")] = None,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", help="A .png or .svg file. Without: in runs/draw, by the names.")
    ] = None,
    length: Annotated[
        int | None, typer.Option("--length", min=1, max=1024, help="Tokens; half and a quarter are shown, too. [64]")
    ] = None,
    dim: Annotated[int | None, typer.Option("--dim", min=1, max=4096, help="Width of the vectors. [128]")] = None,
    model: Annotated[Path | None, typer.Option("--model", help="A model's folder: its method, as trained.")] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="With --model: a text to show it; again for more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw what methods tell: coordinates, codes, similarity of positions and its decay, a row a method."""
    _notes(quiet=True)
    from vnait import drawing

    names = methods or []
    rows = [*names, "trained"] if model is not None else names
    file = "-".join(rows) if len(rows) <= 4 else f"{len(rows)}-methods"
    fitted = None
    if model is not None:
        from vnait.predict import load

        fitted = load(model)
    shown = drawing.asked(names, fitted=fitted, texts=text or [], length=length, dim=dim)
    out = drawing.checked(out or Path("runs") / "draw" / f"{file}.png")
    figure = drawing.figure(shown)
    drawing.save(figure, out)
    if as_json:
        panels = zip(shown, drawing.titles(figure), strict=True)
        found = [{"method": one.name, "note": one.note, "panels": titles} for one, titles in panels]
        _print_json({"rows": found, "file": str(out)})
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
        _print_json({"rows": rows, "dim": dim, "max_length": max_length})
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
        _print_json({"rows": rows, "dim": dim})
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
    _notes(quiet)
    from vnait import laws

    tried = [subject for name in names or ("ours", "peers") for subject in laws.subjects(name)]
    unique = list({subject.name: subject for subject in tried}.values())
    with _bar(quiet, "trying") as move:
        rows = laws.conformance(unique, watch=move)
    if as_json:
        _print_json({"rows": [asdict(row) for row in rows]})
    else:
        terminal.show_conformance(rows)
    if any(row.passed is False for row in rows):
        raise typer.Exit(1)


@app.command("study")
def study_command(
    names: Annotated[list[str], typer.Argument(help="Names from `vnait study list`; all: every short study.")],
    *,
    methods: Annotated[str, typer.Option("--methods", help="Of a suite: names with commas. Without: all.")] = "",
    tasks: Annotated[str, typer.Option("--tasks", help="Of a suite: tasks, or sets, with commas. Without: all.")] = "",
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Of a suite: seeds, or draws of rows. [5]")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps, seeds and tests, for a look.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where records and figures go, and are read from again.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Cells at a time. Without: one a core.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Put a claim about positions to the test, or compare methods on a suite of tasks; finished cells are not run again."""
    _notes(quiet)
    from vnait import studies
    from vnait.studies.suites import SUITES

    if names == ["list"]:
        found = studies.listed()
        _print_json({"rows": found}) if as_json else terminal.show_studies(found)
        return
    suites = [name for name in names if name in SUITES]
    if suites and len(names) > 1:
        raise InputError(f"{suites[0]} is a suite with options of its own; run it alone.")
    if suites:
        asked = {
            "methods": _listed(methods),
            "tasks": _listed(tasks),
            "seeds": seeds or 5,
            "quick": quick,
            "jobs": jobs,
        }
        _suite(suites[0], out or Path("runs") / suites[0], as_json=as_json, quiet=quiet, asked=asked)
        return
    if methods or tasks or seeds:
        raise InputError(
            f"--methods, --tasks and --seeds are for {', '.join(SUITES)}; a short study has its own arms and seeds."
        )
    out = out or Path("runs") / ("studies-quick" if quick else "studies")
    with _bar(quiet, "studying") as move:
        rows = studies.run(names, quick=quick, out=out, jobs=jobs, watch=move)
    report = _report(out)
    if as_json:
        _print_json({"rows": rows, "records": str(out), "report": str(report)})
    else:
        terminal.show_verdicts(rows)
        print(f"\nrecords and figures: {out}\nreport: {report}")


def _suite(name: str, out: Path, *, as_json: bool, quiet: bool, asked: dict[str, Any]) -> None:
    from vnait.studies.suites import SUITES, Asked

    with _bar(quiet, "training") as move:
        found = SUITES[name](Asked(out=out, watch=move, **asked))
    if as_json:
        _print_json({"rows": found.rows, "verdicts": found.verdicts, "records": str(out)})
        return
    found.show()
    for method, verdict in found.verdicts.items():
        print(f"{method}: {': '.join(verdict)}")
    print(f"records: {out}")


def _listed(names: str) -> tuple[str, ...]:
    return tuple(filter(None, names.split(",")))


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(help="What `vnait compare` or `vnait study` wrote.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Write a folder's results as one page, report.html, that opens anywhere and asks no other machine."""
    path = _report(folder)
    _print_json({"report": str(path)}) if as_json else print(path)


def _report(folder: Path) -> Path:
    from vnait import report

    return report.write(folder)


@vectors_app.command("train")
def vectors_train_command(
    data: Data,
    *,
    out: Annotated[Path, typer.Option("--out", help="A .bin, .txt, .vec or .kv file.")],
    text: Text = "text",
    dim: Annotated[int, typer.Option("--dim", min=1, help="Width of the vectors.")] = 96,
    epochs: Annotated[int, typer.Option("--epochs", min=1)] = 20,
    min_count: Annotated[int, typer.Option("--min-count", min=1, help="Rarer words are left out.")] = 2,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    tokens: Tokenization = "words",
    as_json: AsJson = False,
) -> None:
    """Train Word2Vec on a column of texts."""
    _notes(quiet=False)
    from vnait import text as texts
    from vnait import vectors

    table = _read(data, text, None)
    sentences = texts.words(table.texts, tokens)
    learned = vectors.train(sentences, dim=dim, epochs=epochs, min_count=min_count, seed=seed)
    vectors.save(learned, out)
    _facts({"words": len(learned.words), "dim": learned.dim, "texts": len(table), "file": str(out)}, as_json)


@vectors_app.command("info")
def vectors_info_command(
    path: Annotated[str, typer.Argument(help="A vector file.")], *, as_json: AsJson = False
) -> None:
    """Say what is in a vector file."""
    from vnait import vectors

    _facts(vectors.info(path), as_json)


@vectors_app.command("convert")
def vectors_convert_command(
    source: Annotated[str, typer.Argument(help="A vector file of any known format.")],
    target: Annotated[str, typer.Argument(help="A .bin, .txt, .vec or .kv file.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Write a vector file in another format."""
    from vnait import vectors

    _facts(vectors.convert(source, target), as_json)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    try:
        typed = shlex.join(["vnait", *(sys.argv[1:] if arguments is None else arguments)])
        code = app(args=arguments, standalone_mode=False, obj=typed)  # typer catches Ctrl-C itself
    except (typer.Abort, KeyboardInterrupt):
        code = STOPPED
    except _WRONG_USE as error:
        message = error.format_message().rstrip(".")  # empty where the help was shown instead
        sys.exit(_said(f"{message}; see --help.", 2) if message else 2)
    except InputError as error:
        sys.exit(_said(error, 2))
    except BrokenPipeError:
        sys.stderr.close()  # a reader such as `head` has seen enough
        sys.exit(0)
    except OSError as error:
        sys.exit(_said(error, 2))
    except (FloatingPointError, MemoryError) as error:
        sys.exit(_said(error, 1))
    if code == STOPPED:
        sys.exit(_said("stopped; what was finished is kept, and the same command goes on from there.", STOPPED))
    if code:
        sys.exit(code)


def _said(error: object, code: int) -> int:
    print(f"vnait: {' '.join(str(error).split())}", file=sys.stderr)
    return code


def _notes(quiet: bool) -> None:
    """What the library has to say goes to standard error, a line each."""
    logger = logging.getLogger("vnait")
    logger.handlers[:] = [logging.StreamHandler()]
    logger.handlers[0].setFormatter(logging.Formatter("vnait: %(message)s"))
    logger.setLevel(logging.ERROR if quiet else logging.INFO)
    logger.propagate = False


def _read(source: str, text: str, label: str | None) -> Table:
    from vnait.text import read

    return read(source, text=text, label=label)


def _words(texts: Sequence[str], *, base: str | None, vectors: str | None, tokens: str, seed: int) -> Lexicon | Base:
    from vnait import bases, lexicon

    if base is not None:
        return bases.Base.load(base)
    if vectors is not None:
        return lexicon.look_up(texts, vectors, tokenization=tokens)
    return lexicon.learn(texts, tokenization=tokens, seed=seed)


def _run(*, steps: int | None, max_length: int, learning_rate: float) -> Run:
    from vnait.train import Run

    return Run(steps=steps, max_length=max_length, learning_rate=learning_rate)


def _short(source: str) -> str:
    """A folder's name for a source: reviews for data/reviews.csv, org-name for hf:org/name."""
    kind, colon, name = source.partition(":")
    if colon and kind in ("hf", "builtin"):
        return name.replace(":", "-").replace("/", "-").strip("-")
    return Path(source).name.split(".")[0]


def _shots(given: str) -> tuple[int | str, ...]:
    parts = [part.strip() for part in given.split(",") if part.strip()]
    wrong = next((part for part in parts if part != "all" and not part.isdigit()), None)
    if wrong is not None:
        raise InputError(f"--shots {given}: {wrong!r} is neither a number of rows a class nor all.")
    return tuple(part if part == "all" else int(part) for part in parts)


def _lines(file: Any) -> list[str]:
    """The lines of a binary file; a text stream would take broken bytes for half characters in some locales."""
    lines: list[str] = []
    for number, line in enumerate(file, 1):
        try:
            lines.append(line.decode().rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input is not UTF-8: line {number} holds the byte 0x{line[error.start]:02x}; convert it first."
            ) from error
    if not any(line.strip() for line in lines):
        raise InputError("standard input has no text; give one text a line.")
    return lines


def _write_csv(file: Any, rows: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, ensure_ascii=False, indent=2))


def _facts(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _print_json(facts)
    else:
        for name, value in facts.items():
            print(f"{name:10} {', '.join(map(str, value)) if isinstance(value, list) else value}")


@contextmanager
def _bar(quiet: bool, title: str) -> Iterator[Any]:
    """A progress bar on standard error, where that is a terminal: call it with (done, total, note)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=aside, disable=quiet or not aside.is_terminal, transient=True) as progress:
        task = progress.add_task(title, total=None, note="")
        yield lambda done, total, note: progress.update(task, completed=done, total=total, note=note)


def _moved(move: Any, status: Status) -> None:
    move(status.step, status.steps, f"loss {status.loss:.3f}")


def _cell_note(record: Record | None) -> str:
    return "" if record is None else f"{record.method} {record.metrics['accuracy']:.3f}"
