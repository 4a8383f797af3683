"""The command train."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import compress, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from vnait.cli import shared
from vnait.cli.application import app
from vnait.cli.help import Panel, examples, option
from vnait.cli.output import echo
from vnait.cli.progress import progress
from vnait.shared.errors import InputError
from vnait.train.run import FROZEN, READS_VECTORS, SIMPLE_OF, Run

if TYPE_CHECKING:
    from vnait.data import Table
    from vnait.data.vocabulary import Vocabulary
    from vnait.train.base import Base
    from vnait.train.fitting import Prepared
    from vnait.train.linear import LinearClassifier
    from vnait.train.predict import Fitted


FOR_TRANSFORMERS = (
    "lora",
    "steps",
    "holdout",
    "learning_rate",
    "max_length",
    "bag",
    "smoothness",
    "boundary",
    "track",
    "tune_vectors",
)


OF_RUN = (  # options that are settings of the run as they are
    *("base", "lora", "seed", "steps", "holdout", "max_length", "learning_rate", "tune_vectors"),
    *("bag", "threads", "track"),
)


SETTLED = (  # options that a model which is trained further has already
    *("method", "base", "lora", "task", "max_length", "bag", "smoothness", "boundary"),
    *("vectors", "vector_words", "tune_vectors", "tokenization"),
)


class Words(TypedDict):
    """How texts become words with vectors, as `vocabulary_of` takes it."""

    vectors: str | None
    vector_words: int | None
    tokenization: str


Continue = Annotated[
    Path | None,
    option(
        Panel.MODEL,
        "MODEL",
        "A saved Transformer to train further on new rows; it keeps its words, labels and settings.",
        "a new model",
        names=["--continue"],
    ),
]

Unlabelled = Annotated[
    str,
    option(
        Panel.MODEL,
        "TEXTS",
        "Texts to learn words from in addition to the labelled rows; rest takes the rows without a label "
        "[possible values: rest, none]",
    ),
]


def penalty(name: str) -> Any:
    """The option of a weight of `Run`, which may have several values."""
    return option(
        Panel.TRAINING,
        "NUMBERS",
        f"{Run.help(name)} Held-out rows choose from several, with commas.",
        str(getattr(Run, name)),
    )


EXAMPLES = examples(
    "vnait train reviews.csv --text body --label stars -o model",
    "vnait train reviews.csv --method tfidf -o model",
    "vnait train reviews.csv --base bert-base-uncased --lora -o tuned",
    "vnait train new.csv --continue model -o newer",
)


@app.command("train", rich_help_panel=Panel.TRAIN_AND_PREDICT, epilog=EXAMPLES)
@shared.options_of(shared.FileOptions, shared.LabelOptions)
def train_command(
    context: typer.Context,
    data: shared.Data,
    *,
    text: shared.Text = "text",
    label: shared.Label = "label",
    task: shared.Task = "classification",
    test: Annotated[str | None, shared.test_option("no test scores")] = None,
    files: shared.FileOptions,
    labels: shared.LabelOptions,
    method: Annotated[str, shared.setting("method", "NAME", Panel.MODEL)] = Run.method,
    base: Annotated[str | None, shared.setting("base", "MODEL", Panel.MODEL)] = Run.base,
    lora: Annotated[bool, shared.setting("lora", panel=Panel.MODEL)] = Run.lora,
    folder: Continue = None,
    vectors: shared.VectorFile = None,
    vector_words: shared.VectorWords = None,
    tune_vectors: Annotated[bool, shared.setting("tune_vectors", panel=Panel.MODEL)] = Run.tune_vectors,
    tokenization: shared.Tokenization = "words",
    unlabelled: Unlabelled = "rest",
    max_length: shared.MaxLength = Run.max_length,
    bag: shared.Bag = Run.bag,
    steps: shared.Steps = Run.steps,
    learning_rate: shared.LearningRate = Run.learning_rate,
    class_weight: shared.ClassWeight = None,
    holdout: Annotated[bool, shared.setting("holdout")] = Run.holdout,
    smoothness: Annotated[str | None, penalty("smoothness")] = None,
    boundary: Annotated[str | None, penalty("boundary")] = None,
    seed: Annotated[int, shared.setting("seed", "NUMBER")] = Run.seed,
    threads: shared.Threads = Run.threads,
    track: Annotated[str | None, shared.setting("track", "NAME")] = Run.track,
    out: Annotated[Path, shared.out_option("The folder of the saved model.", "FOLDER")],
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Train one model, or fine-tune a pretrained one.

    The same command resumes a training that was stopped.
    """
    shared.set_up_logging(quiet)
    _check_name(out)
    words = Words(vectors=vectors, vector_words=vector_words, tokenization=tokenization)
    weights = shared.class_weight_of(class_weight)
    if folder is not None:
        run, words["tokenization"], task = _continued(context, folder, weights)
    read = partial(shared.read_with_tests, data, test, text, label, files, labels, task, unlabelled)
    if folder is None and (method in SIMPLE_OF.get(task, ()) or (base is not None and method == FROZEN)):
        _check_simple(method, context.params)
        run = Run(seed=seed, class_weight=weights, threads=threads)
        with progress(quiet, f"training {method}"):
            simple = _simple(method, base, *read(), out, words, run)
        _show(simple, out, as_json)
        return
    if folder is None:
        options = {name: context.params[name] for name in OF_RUN}
        run = Run(method=_method_for(context, base, method), class_weight=weights, **options)
    penalties = _penalties(run, smoothness, boundary)
    from vnait.shared.processes import is_first, once_per_node  # torch, once the settings are checked

    with progress(quiet or not is_first(), "reading texts and words"):
        ready, about = once_per_node(lambda: _prepared(run, *read(), out, words, folder))
    fitted = _trained(ready, penalties, out, about, quiet=quiet)
    if fitted is not None:
        _show(fitted, out, as_json)


def _method_for(context: typer.Context, base: str | None, method: str) -> str:
    """The method; to a base that reads from left to right, if none was named, the causal one."""
    if base is None or _is_given(context, "method"):
        return method
    from vnait.train.base import Base

    return Base.load(base).default_method


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _continued(
    context: typer.Context, folder: Path, weights: dict[str, float] | str | None
) -> tuple[Run, str, str]:
    """The settings of the model in a folder, with the options that were given; its tokenization and task."""
    if settled := [name for name in SETTLED if _is_given(context, name)]:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in settled)
        raise InputError(f"--continue goes on with the settings of the model; leave {names} out.")
    shared.check_folder(folder)
    from vnait.train.continued import loaded, run_of

    fitted = loaded(folder)
    changes = {name: context.params[name] for name in OF_RUN if _is_given(context, name)}
    changes |= {"class_weight": weights} if weights is not None else {}
    return run_of(fitted, folder, changes), fitted.tokenizer.init_kwargs["tokenization"], fitted.task


def _check_simple(method: str, options: Mapping[str, object]) -> None:
    """Refuse what only a Transformer has."""
    unused = {name for name in FOR_TRANSFORMERS if options[name] not in (None, getattr(Run, name))}
    unused |= {"base"} if method != FROZEN and options["base"] else set()
    if method not in READS_VECTORS:
        unused |= {name for name in ("vectors", "vector_words") if options[name] is not None}
    if unused:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(unused))
        raise InputError(f"{method} is a linear model without {names}: leave them out.")


def _simple(
    method: str,
    base: str | None,
    table: Table,
    tests: Table | None,
    out: Path,
    words: Words,
    run: Run,
) -> LinearClassifier:
    """A simple model of all rows by the run's seed and weights, saved; its validation scores are those of a
    first fit to the others.
    """
    from vnait.data import summary, warn_of_repeats
    from vnait.data.vocabulary import vocabulary_of
    from vnait.results import card as cards
    from vnait.shared.processes import threads
    from vnait.train import baselines
    from vnait.train.replacing import check_replaceable
    from vnait.train.tasks import target_of

    check_replaceable(out)
    target = target_of(table)
    if tests is not None:
        target.check(tests, table.name)
        warn_of_repeats(table.texts, tests.texts)
    reads: baselines.Words = None
    if base is not None:
        reads = baselines.pooled(base)
    elif method in READS_VECTORS:
        reads = vocabulary_of([*table.texts, *table.more], **words, seed=run.seed)
    with threads(run.threads):
        fitted = baselines.fit_baseline(
            method if base is None else baselines.FROZEN_BASE,
            table,
            tests,
            reads,
            tokenization=words["tokenization"],
            seed=run.seed,
            validation=run.held_out(len(table)),
            class_weight=run.class_weight,
            more=[*table.texts, *table.more] if table.more else None,
        )
    assert fitted.record is not None
    fitted.save(out, extras={cards.NAME: cards.card(fitted.record, summary(table, words["tokenization"]))})
    return fitted


def _show(fitted: Fitted | LinearClassifier, out: Path, as_json: bool) -> None:
    from vnait.data.coverage import log_coverage

    assert fitted.record is not None
    log_coverage(fitted.record.data.get("coverage", {}))
    if as_json:
        shared.print_json({"model": str(out), "record": asdict(fitted.record)})
        return
    from vnait.cli import terminal

    terminal.show_scores(fitted.record)
    echo(f"model: {out}")


def _check_name(out: Path) -> None:
    if not out.name:
        raise InputError(f"--out {out} is the folder you are in; choose a new name.")
    if out.is_file():
        raise InputError(f"--out {out} is a file; a model is saved as a folder. Choose another name.")


def _prepared(
    run: Run, table: Table, tests: Table | None, out: Path, words: Words, folder: Path | None
) -> tuple[Prepared, dict[str, Any]]:
    """The rows as ids, and the summary of the table for a model card."""
    from vnait.data import summary, warn_of_repeats
    from vnait.train.fitting import prepare
    from vnait.train.replacing import check_replaceable
    from vnait.train.tasks import target_of

    check_replaceable(out)
    target_of(table)  # what is wrong with the labels, before what is wrong with the words
    made = prepare(run, table, _words(run, table, words, folder), test=tests)
    learned, held = (
        [table.texts[row] for row in part] for part in (made.labelled.train, made.labelled.valid)
    )
    if held:
        warn_of_repeats(learned, held, "validation")
    return made, summary(table, words["tokenization"])


def _trained(
    ready: Prepared, penalties: list[tuple[float, float]], out: Path, about: dict[str, Any], *, quiet: bool
) -> Fitted | None:
    """The best of a training with each pair of penalties, saved; None in all processes but the first."""
    from vnait.results import card as cards
    from vnait.shared.files import locked
    from vnait.shared.processes import is_first
    from vnait.train.fitting import best, forget, train

    checkpoints = out.with_name(out.name + ".checkpoints")
    several = len(penalties) > 1  # then each training has its own folder in that one
    folders = [
        checkpoints / f"{gamma_1:g},{gamma_2:g}" if several else checkpoints for gamma_1, gamma_2 in penalties
    ]

    def trained(penalty: tuple[float, float], folder: Path) -> Fitted:
        with progress(quiet or not is_first(), f"training {ready.run.method}") as move:
            return train(
                ready.penalized(*penalty),
                checkpoints=folder,
                callback=lambda status: move(status.step, status.steps, f"loss {status.loss:.3f}"),
            )

    with locked(checkpoints) if is_first() else nullcontext():
        models = list(map(trained, penalties, folders))
        if not is_first():
            return None
        fitted = best(models) if several else models[0]
        assert fitted.record is not None
        fitted.save(out, extras={cards.NAME: cards.card(fitted.record, about)})
        for folder, model in zip(folders, models, strict=True):
            forget(folder, model)
    return fitted


def _penalties(run: Run, smoothness: str | None, boundary: str | None) -> list[tuple[float, float]]:
    """The pairs of gamma_1 and gamma_2 to train with; an error if the method has nothing that they weigh."""
    if smoothness is None and boundary is None:
        return [(run.smoothness, run.boundary)]
    if run.base is not None:
        raise InputError(
            "--smoothness and --boundary are for models that are trained from scratch; leave them out with "
            "--base."
        )
    options = {"smoothness": smoothness, "boundary": boundary}
    numbers = {name: _numbers(name, value) for name, value in options.items() if value is not None}
    run.check_penalties(numbers, prefix="--")
    pairs = list(product(*(numbers.get(name, [getattr(run, name)]) for name in options)))
    for gamma_1, gamma_2 in pairs:
        replace(run, smoothness=gamma_1, boundary=gamma_2)  # a Run checks its settings
    return pairs


def _numbers(name: str, value: str) -> list[float]:
    numbers: list[float] = []
    with suppress(ValueError):
        numbers = list(dict.fromkeys(map(float, shared.listed(value))))
    if not numbers:
        raise InputError(f"--{name} {value}: give a number, or several with commas between them.")
    return numbers


def _words(run: Run, table: Table, words: Words, folder: Path | None) -> Vocabulary | Base:
    """What makes ids of texts: a vocabulary with its vectors, that of a model in a folder, or the tokenizer
    of the run's base.
    """
    if folder is not None:
        from vnait.train.continued import Continued, loaded

        return Continued.of(loaded(folder), folder, table)
    from vnait.data.vocabulary import vocabulary_of
    from vnait.train.base import Base

    if run.base is None:
        return vocabulary_of([*table.texts, *table.more], **words, seed=run.seed)
    named = {
        "--vectors": words["vectors"] is not None,
        "--vector-words": words["vector_words"] is not None,
        "--tune-vectors": run.tune_vectors,
        "--tokenization": words["tokenization"] != "words",
        "--bag": run.bag is not None,
    }
    if any(named.values()):
        raise InputError(
            "--base brings its own vectors and tokens, and has no bag of words beside it; leave "
            f"{', '.join(compress(named, named.values()))} out."
        )
    return Base.load(run.base)
