"""What commands share: options, how a table is read, and what is printed where."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

import typer

from vnait.cli.help import Panel, flag, option
from vnait.cli.output import echo, json_of
from vnait.data.layout import Layout
from vnait.data.tasks import TASKS
from vnait.shared.errors import InputError
from vnait.train.run import Run

if TYPE_CHECKING:
    from vnait.data import Table

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, JSONL, Parquet, .xlsx, .xls or .ods file, a folder with a subfolder of texts per "
        "class, hf:NAME for a data set of the Hugging Face hub, or a sample, builtin:splice or "
        "builtin:polarity. For tagging: CoNLL-U, or a word and its tag per line.",
    ),
]
Text = Annotated[
    str,
    option(
        Panel.DATA,
        "COLUMN",
        "The column of texts; title+body joins two columns, a,b reads pairs of texts.",
        names=["--text"],
    ),
]
Label = Annotated[
    str,
    option(
        Panel.DATA,
        "COLUMN",
        "The column of labels, by its name or, for tagging, number; a,b,c reads columns of 0 and 1.",
        "label; UPOS or the last column for tagging",
        names=["--label"],
    ),
]
Group = Annotated[
    str | None,
    option(
        Panel.DATA,
        "COLUMN",
        "A column of groups, such as authors; all rows of a group stay on one side of a split.",
        "none",
    ),
]
MergeLabels = Annotated[
    bool,
    flag(Panel.DATA, "Merge labels that look alike, such as Good, good and GOOD.", "--merge-labels"),
]


@dataclass(frozen=True)
class FileOptions:
    """How a file is laid out, as options of a command."""

    sep: Annotated[
        str | None, option(Panel.LAYOUT, "MARK", "The field separator: , ; | or tab.", "detected")
    ] = None
    encoding: Annotated[
        str | None,
        option(
            Panel.LAYOUT, "NAME", "The encoding, such as cp1252.", "by the file's first bytes, else UTF-8"
        ),
    ] = None
    sheet: Annotated[
        str | None, option(Panel.LAYOUT, "NAME", "The sheet of a workbook.", "the first that is not hidden")
    ] = None
    header: Annotated[
        int | None, option(Panel.LAYOUT, "ROW", "The row of the column names.", "the first row", min=1)
    ] = None
    no_header: Annotated[
        bool,
        flag(Panel.LAYOUT, "The file has no column names; --text 2 is its second column.", "--no-header"),
    ] = False
    decimal: Annotated[str, option(Panel.LAYOUT, "MARK", "The decimal mark of labels that are numbers.")] = (
        "."
    )

    @property
    def layout(self) -> Layout:
        """As `vnait.data.read` takes it."""
        if self.no_header and self.header is not None:
            raise InputError(f"--no-header and --header {self.header} exclude each other; give one of them.")
        header = 0 if self.no_header else self.header
        return Layout(
            sep=self.sep, encoding=self.encoding, sheet=self.sheet, header=header, decimal=self.decimal
        )


@dataclass(frozen=True)
class LabelOptions:
    """What becomes of doubtful labels, and what rows belong to, as options of a command."""

    group: Group = None
    merge_labels: MergeLabels = False
    drop_contradicting: Annotated[
        bool,
        flag(Panel.DATA, "Drop rows whose text also occurs with another label.", "--drop-contradicting"),
    ] = False
    min_class: Annotated[
        int,
        option(Panel.DATA, "ROWS", "Drop classes with fewer rows than this.", min=1),
    ] = 2


Command = TypeVar("Command", bound=Callable[..., Any])


def options_of(*groups: type[Any]) -> Callable[[Command], Command]:
    """A command whose parameters of these dataclasses are an option per field."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        members = {
            name: fields(parameter.annotation)
            for name, parameter in signature.parameters.items()
            if parameter.annotation in groups
        }
        parameters: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            if name not in members:
                parameters.append(parameter)
                continue
            hints = get_type_hints(parameter.annotation, include_extras=True)
            parameters += [
                inspect.Parameter(
                    field.name, parameter.kind, default=field.default, annotation=hints[field.name]
                )
                for field in members[name]
            ]

        @wraps(command)
        def expanded(*arguments: Any, **options: Any) -> Any:
            for name, group in members.items():
                values = {field.name: options.pop(field.name) for field in group}
                options[name] = signature.parameters[name].annotation(**values)
            return command(*arguments, **options)

        expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return cast(Command, expanded)

    return decorate


def out_option(text: str, metavar: str, default: str | bool = True) -> Any:
    """The option --out of a command."""
    return option(Panel.OUTPUT, metavar, text, default, names=["--out", "-o"])


def test_option(default: str) -> Any:
    """The option --test of a command."""
    return option(Panel.DATA, "DATA", "A file of test rows with the same columns.", default)


Task = Annotated[
    str,
    option(
        Panel.DATA,
        "TASK",
        "What the labels are: a class per text, a number (regression), a tag per word (tagging), or any "
        "number of classes with | between them (multilabel) "
        f"[possible values: {', '.join(TASKS)}]",
    ),
]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a saved model.")]
AsJson = Annotated[bool, flag(Panel.OUTPUT, "Print one JSON document.", "--json")]
Quiet = Annotated[
    bool,
    flag(Panel.OUTPUT, "Print no progress and no notes.", "--quiet", "-q"),
]
Jobs = Annotated[
    int | None,
    option(Panel.COMPARISON, "NUMBER", "Runs at a time.", "one per core", min=1),
]
Backend = Annotated[
    str,
    option(Panel.COMPARISON, "NAME", "Where runs are executed [possible values: local, ray, slurm]"),
]
VectorFile = Annotated[
    str | None,
    option(Panel.MODEL, "FILE", "A file of semantic vectors.", "Word2Vec on the texts themselves"),
]
VectorWords = Annotated[
    int | None,
    option(
        Panel.MODEL,
        "NUMBER",
        "How many of that file's first words the model knows, in addition to those of the texts.",
        "50,000",
        min=0,
    ),
]


def setting(name: str, metavar: str | None = None, panel: Panel = Panel.TRAINING) -> Any:
    """The option of a field of `Run`, with its description and default; without a metavar it is a flag."""
    text, _, default = Run.help(name).partition(" Default: ")
    names = [] if metavar else [f"--{name.replace('_', '-')}"]
    return option(panel, metavar, text, default.rstrip(".") or True, names=names)


Tokenization = Annotated[
    str,
    option(
        Panel.MODEL,
        "NAME",
        "How texts are cut into tokens; characters suits DNA [possible values: words, characters, jieba]",
    ),
]
Steps = Annotated[int | None, setting("steps", "NUMBER")]
MaxLength = Annotated[int, setting("max_length", "TOKENS", Panel.MODEL)]
Threads = Annotated[int, setting("threads", "NUMBER")]
LearningRate = Annotated[float | None, setting("learning_rate", "RATE")]
Bag = Annotated[float | None, setting("bag", "SHARE", Panel.MODEL)]
ClassWeight = Annotated[str | None, setting("class_weight", "WEIGHTS")]


def set_up_logging(quiet: bool) -> None:
    """Send log messages to standard error, one per line."""
    logger = logging.getLogger("vnait")
    logger.handlers[:] = [_Aside()]  # replaced: `main` may run twice in one process
    logger.handlers[0].setFormatter(logging.Formatter("vnait: %(message)s"))
    logger.setLevel(logging.ERROR if quiet else logging.INFO)
    logger.propagate = False


class _Aside(logging.Handler):
    """Messages on standard error, as `echo` prints them."""

    def emit(self, record: logging.LogRecord) -> None:
        echo(self.format(record), file=sys.stderr)


def read_table(source: str, text: str, label: str | None, files: FileOptions, **options: Any) -> Table:
    """The table of a source, with these options of `vnait.data.read`; no label: its texts alone.

    Neither torch nor anything else that is slow is loaded for it.
    """
    from vnait.data.tables import read

    return read(source, text=text, label=label, **files.layout, **options)


def read_with_tests(
    source: str,
    test: str | None,
    text: str,
    label: str,
    files: FileOptions,
    labels: LabelOptions,
    task: str,
    unlabelled: str = "rest",
) -> tuple[Table, Table | None]:
    """The table of a source, and that of a file of test rows, whose columns have the same names."""
    if unlabelled not in ("rest", "none"):
        raise InputError(f"--unlabelled {unlabelled}: give rest or none.")
    read = partial(read_table, text=text, label=label, files=files, task=task)
    table = read(source, **asdict(labels))
    if unlabelled == "none":
        table = replace(table, more=[])
    if test is None:
        return table, None
    tests = read(test, of_tests=True, **asdict(labels), known=table.label_names)
    return replace(table, more=table.unlike(tests)), tests


def check_folder(folder: Path, whose: str = "`vnait train` or `vnait compare` saved a model in") -> None:
    """Raise InputError if there is no such folder, before anything slow is loaded."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give one that {whose}.")


def listed(names: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(filter(None, map(str.strip, names.split(","))))


def class_weight_of(written: str | None) -> dict[str, float] | str | None:
    """The weights in `--class-weight a=2,b=1`; a word alone stays as it is. A label may have commas.

    >>> class_weight_of("good, but long=2,bad=1")
    {'good, but long': 2.0, 'bad': 1.0}
    """
    if written is None or "=" not in written:
        return written
    weights = {}
    label = ""
    for part in written.split(","):
        name, equals, number = part.rpartition("=")
        label += name if equals else f"{part},"
        if not equals:  # the comma is the label's
            continue
        try:
            weights[label.strip(" ,")] = float(number)
        except ValueError as error:
            raise InputError(_no_weight(written, part)) from error
        label = ""
    if rest := label.strip(" ,"):
        raise InputError(_no_weight(written, rest))
    return weights


def _no_weight(written: str, part: str) -> str:
    return f"--class-weight {written}: {part!r} is not a label, = and a number, such as spam=2."


# Of files, which their folders' names leave out.
ENDINGS = (
    ".gz",
    ".bz2",
    ".xz",
    ".zip",
    ".zst",
    ".csv",
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".parquet",
    ".xlsx",
    ".xlsm",
    ".xls",
    ".ods",
    ".conllu",
    ".conll",
)


def folder_name(source: str) -> str:
    """A folder's name for a source: reviews for data/reviews.csv, org-name for hf:org/name."""
    kind, colon, name = source.partition(":")
    if colon and kind in ("hf", "builtin"):
        return name.replace(":", "-").replace("/", "-").strip("-")
    path = Path(Path(source).name.lstrip("."))
    while path.suffix.lower() in ENDINGS:
        path = path.with_suffix("")
    return path.name


def print_json(document: dict[str, Any]) -> None:
    """One document on standard output."""
    print(json_of(document))


def print_facts(facts: dict[str, Any], as_json: bool) -> None:
    """A few facts, a line each or as JSON."""
    if as_json:
        print_json(facts)
    else:
        for name, value in facts.items():
            echo(f"{name:10} {', '.join(map(str, value)) if isinstance(value, list) else value}")
