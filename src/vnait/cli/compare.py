"""The command compare."""

from __future__ import annotations

import inspect
import logging
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vnait.cli import shared
from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.cli.output import echo
from vnait.cli.progress import progress
from vnait.cli.train import FOR_TRANSFORMERS, train_command
from vnait.positions.methods import METHODS
from vnait.shared.errors import InputError, MissingExtra, plural
from vnait.train.run import FROZEN, PREFIX, READS_VECTORS, Run, unknown_methods

if TYPE_CHECKING:
    from vnait.comparison.compare import Comparison
    from vnait.results.record import Record

# Options that `vnait train` has, too, but which the command that it advises does not repeat.
NOT_REPEATED = {"data", "out", "threads", "as_json", "quiet"}
# Options that are fields of `Run` as they are.
SETTINGS = ("steps", "max_length", "learning_rate", "bag", "threads")
PASSED = (  # options that are arguments of `compare` as they are
    "seeds",
    "vectors",
    "vector_words",
    "tokenization",
    "unlabelled",
    "base",
    "reference",
    "jobs",
    "backend",
)
Methods = Annotated[
    str | None,
    option(
        Panel.COMPARISON,
        "NAMES",
        "Names from `vnait list`, with commas.",
        "none,sinusoidal,learned,vnait-uniform,vnait",
    ),
]
Out = Annotated[
    Path | None,
    shared.out_option("The folder of records, report and model.", "FOLDER", "runs/ and the name of DATA"),
]
Reference = Annotated[
    str | None,
    option(
        Panel.COMPARISON,
        "NAME",
        "The method that the others are compared with.",
        "vnait, or the first",
    ),
]
Base = Annotated[
    str | None,
    option(
        Panel.COMPARISON,
        "MODEL",
        "A pretrained encoder, a folder or a name on the hub: compared frozen, fine-tuned, and with each "
        "base:NAME of --methods.",
        "none",
    ),
]
Shots = Annotated[
    str,
    option(Panel.COMPARISON, "ROWS", "Rows per class to learn from; several with commas, or all."),
]
Seeds = Annotated[
    int,
    option(
        Panel.COMPARISON, "NUMBER", "How many seeds; each draws its own split and initial weights.", min=1
    ),
]
Unlabelled = Annotated[
    str,
    option(
        Panel.COMPARISON,
        "TEXTS",
        "Texts to learn words from in addition to the rows of --shots; rest takes the other training rows, "
        "without their labels, and rows that have none [possible values: rest, none]",
    ),
]
EXAMPLES = examples(
    "vnait compare reviews.csv --text body --label stars",
    "vnait compare reviews.csv --methods rope,alibi,vnait --shots 16,64,all",
    "vnait compare reviews.csv --base bert-base-uncased --methods base:vnait",
    "vnait compare builtin:splice --tokenization characters -o runs/dna",
)


@app.command("compare", rich_help_panel=Panel.TRAIN_AND_PREDICT, epilog=EXAMPLES)
@shared.options_of(shared.FileOptions, shared.LabelOptions)
def compare_command(
    context: typer.Context,
    data: shared.Data,
    *,
    text: shared.Text = "text",
    label: shared.Label = "label",
    task: shared.Task = "classification",
    test: Annotated[str | None, shared.test_option("30 % of the rows, drawn by each seed")] = None,
    files: shared.FileOptions,
    labels: shared.LabelOptions,
    methods: Methods = None,
    base: Base = None,
    reference: Reference = None,
    shots: Shots = "all",
    unlabelled: Unlabelled = "rest",
    seeds: Seeds = 5,
    jobs: shared.Jobs = None,
    backend: shared.Backend = "local",
    vectors: shared.VectorFile = None,
    vector_words: shared.VectorWords = None,
    tokenization: shared.Tokenization = "words",
    max_length: shared.MaxLength = Run.max_length,
    bag: shared.Bag = Run.bag,
    steps: shared.Steps = Run.steps,
    learning_rate: shared.LearningRate = Run.learning_rate,
    class_weight: shared.ClassWeight = None,
    threads: shared.Threads = Run.threads,
    out: Out = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Compare positional methods and simple models on labelled text.

    Saves the best model, writes a report, and prints the command that trains the best model on all rows. The
    same command resumes a comparison that was stopped.
    """
    shared.set_up_logging(quiet)
    counts, names = _shots(shots), _methods(methods, base)
    run = Run(
        **{name: context.params[name] for name in SETTINGS}, class_weight=shared.class_weight_of(class_weight)
    )
    table, tests = shared.read_with_tests(data, test, text, label, files, labels, task)
    from vnait.comparison.compare import DEFAULT_METHODS, compare  # torch, once the table is read

    with progress(quiet, "comparing") as move:
        comparison = compare(
            table,
            methods=names or DEFAULT_METHODS,
            shots=counts,
            test=tests,
            out=out or Path("runs") / shared.folder_name(data),
            run=run,
            **{name: context.params[name] for name in PASSED},
            callback=_Watch(move, seeds, quiet),
            command=context.obj,
        )
    plugins = context.find_root().params.get("plugin") or ()
    _show(comparison, _next(comparison.best, context.params, plugins), as_json)


def _next(best: str, options: Mapping[str, object], plugins: Sequence[str] = ()) -> str:
    """The command that trains the advised model on all rows, with the options that are not the defaults."""
    method = best.removeprefix(PREFIX)
    # A base has its own words.
    unused = {"base"} if best == method else {"vectors", "vector_words", "tokenization", "unlabelled", "bag"}
    if best == method and method not in METHODS:
        unused |= set(FOR_TRANSFORMERS)
        unused |= set() if method in READS_VECTORS else {"vectors", "vector_words"}
    if method == FROZEN:
        unused |= set(FOR_TRANSFORMERS)
    words = ["vnait", *chain.from_iterable(("--plugin", path) for path in plugins)]
    words += ["train", str(options["data"]), "--method", method]
    compared, trained = (
        inspect.signature(command).parameters for command in (compare_command, train_command)
    )
    for name in compared:
        if name not in trained or name in NOT_REPEATED | unused:
            continue
        if (value := options.get(name)) not in (None, trained[name].default):
            words += [f"--{name.replace('_', '-')}"] + [str(value)] * (value is not True)
    return shlex.join([*words, "--out", "model"])


def _methods(methods: str | None, base: str | None) -> tuple[str, ...]:
    names = shared.listed(methods or "")
    if methods is not None and not names:
        raise InputError("--methods is empty; name methods, or leave it out for the default ones.")
    if wrong := list(unknown_methods(names, base=base is not None)):
        raise InputError("; ".join(wrong) + ".")
    return names


def _show(comparison: Comparison, train: str, as_json: bool) -> None:
    model = comparison.path.parent / "model"
    files = {"records": comparison.path} | _drawn(
        {"report": comparison.report, "picture": comparison.picture}
    )
    if as_json:
        tables = {"rows": comparison.rows, "paired": comparison.paired}
        words = {"best": comparison.best, "advice": comparison.advice(), "next": train, "model": str(model)}
        paths = {name: path and str(path) for name, path in files.items()}
        shared.print_json({**tables, **words, **paths})
        return
    from vnait.cli import terminal

    terminal.show_comparison(comparison)
    echo(f"Next: {train}")
    echo(f"\nmodel: {model} ({comparison.best})")
    for name, path in files.items():
        if path is not None:
            echo(f"{name}: {path}")


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


def _shots(shots: str) -> tuple[int | str, ...]:
    parts = shared.listed(shots)
    wrong = next((part for part in parts if part != "all" and not part.isdecimal()), None)
    if wrong is not None:
        raise InputError(f"--shots {shots}: {wrong!r} is neither a number of rows per class nor all.")
    return tuple(part if part == "all" else int(part) for part in parts)


class _Watch:
    """The callback of a comparison: it moves the progress bar, and writes the scores of a simple model once
    all of its seeds have one, long before the Transformers have theirs.
    """

    def __init__(self, move: Callable[[int, int, str], None], seeds: int, quiet: bool) -> None:
        self.move, self.seeds, self.quiet = move, seeds, quiet
        self.scores: dict[tuple[str, object], list[float]] = {}

    def __call__(self, done: int, total: int, record: Record | None) -> None:
        from vnait.results.metrics import metric_of
        from vnait.results.results import is_transformer

        metric = None if record is None else metric_of(record.metrics)
        if record is None or metric is None:
            self.move(done, total, "")
            return
        score = record.metrics[metric.name]
        self.move(done, total, f"{record.method} {score:.3f}")
        if self.quiet or is_transformer(record):
            return
        scores = self.scores.setdefault((record.method, record.data["shots"]), [])
        scores.append(score)
        if len(scores) == self.seeds:
            shots = "" if record.data["shots"] == "all" else f" with {record.data['shots']} {metric.kinds}"
            mean = metric.form.format(sum(scores) / len(scores))
            echo(
                f"vnait: {record.method}, a simple model{shots}: {metric.title} {mean} "
                f"({plural(self.seeds, 'seed')})",
                file=sys.stderr,
            )
