"""What commands share: options, how a table is read, and what is printed where."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial, wraps
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

import typer

from vnait.cli.output import echo, json_of
from vnait.data.layout import Layout
from vnait.positions import plugins
from vnait.shared import files
from vnait.shared.errors import InputError
from vnait.shared.escaping import safe
from vnait.train.run import Run

if TYPE_CHECKING:
    from vnait.data import Table

app = typer.Typer(
    name="vnait",
    help="Compare positional methods for Transformers on your own labelled text.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"vnait {version('vnait')}")
        raise typer.Exit


@app.callback()
def root(
    plugin: Annotated[
        list[str] | None,
        typer.Option(help="A Python file with METHODS to add; repeat it for more files."),
    ] = None,
    unpack_limit: Annotated[
        float | None,
        typer.Option(
            help="GiB that a packed, .xlsx or Parquet file may unpack to. Default: 1, and 16 for vectors."
        ),
    ] = None,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Compare positional methods for Transformers on your own labelled text."""
    for path in plugin or []:
        plugins.load_file(path)
    if unpack_limit is not None:
        os.environ[files.UNPACK_LIMIT] = str(unpack_limit)


Data = Annotated[
    str,
    typer.Argument(
        help="A CSV, TSV, JSONL, Parquet, .xlsx, .xls or .ods file, a folder of texts by class, hf:NAME, "
        "builtin:splice or builtin:polarity. "
        "For tagging: CoNLL-U, or a word and its tag per line."
    ),
]
Text = Annotated[
    str, typer.Option("--text", help="The column of texts; title+body joins columns, a,b are pairs.")
]
Label = Annotated[
    str,
    typer.Option(
        "--label",
        help="The column of labels; a,b,c: columns of 0 and 1. For tagging: a column by its name or number. "
        "Default: UPOS, or the last.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="A column of what rows belong to, such as an author: no split divides a group. Default: none.",
    ),
]
MergeLabels = Annotated[
    bool,
    typer.Option("--merge-labels", help="Labels that look alike, such as Good and 'good ', are one class."),
]


@dataclass(frozen=True)
class FileOptions:
    """How a file is laid out, as options of a command."""

    sep: Annotated[
        str | None,
        typer.Option(help="What separates the fields: , ; | or tab. Default: found in the file."),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of the file, such as cp1252. Default: by its mark, else UTF-8."),
    ] = None
    sheet: Annotated[
        str | None, typer.Option(help="The sheet of a workbook. Default: the first that is not hidden.")
    ] = None
    header: Annotated[
        int | None, typer.Option(min=1, help="The row of the column names. Default: the first row.")
    ] = None
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The file has no column names; --text 2 is its second column.")
    ] = False
    decimal: Annotated[str, typer.Option(help="The decimal mark of labels that are numbers.")] = "."

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
        typer.Option("--drop-contradicting", help="Leave out rows whose text has another label elsewhere."),
    ] = False
    min_class: Annotated[int, typer.Option(min=1, help="Leave out classes with fewer rows.")] = 2


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


Task = Annotated[
    str,
    typer.Option(
        "--task",
        help="classification; regression: labels are numbers; tagging: each word has a tag; multilabel: any "
        "number of labels, with | between them.",
    ),
]
ModelFolder = Annotated[Path, typer.Argument(help="A model's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Backend = Annotated[str, typer.Option("--backend", help="Where cells run: local, ray or slurm.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")]
VectorFile = Annotated[
    str | None,
    typer.Option("--vectors", help="A file of semantic vectors. Default: Word2Vec on the texts themselves."),
]
VectorWords = Annotated[
    int | None,
    typer.Option(
        "--vector-words",
        min=0,
        help="First words of that file that the model knows, beside those of the texts. Default: 50,000.",
    ),
]


def setting(name: str) -> Any:
    """The option of a field of `Run`: --batch-size for batch_size, with its description."""
    return typer.Option(f"--{name.replace('_', '-')}", help=Run.help(name))


Tokenization = Annotated[
    str, typer.Option("--tokenization", "--tokens", help="words, characters (for DNA and the like) or jieba.")
]
Steps = Annotated[int | None, setting("steps")]
MaxLength = Annotated[int, setting("max_length")]
Threads = Annotated[int, setting("threads")]
LearningRate = Annotated[float | None, setting("learning_rate")]
ClassWeight = Annotated[str | None, setting("class_weight")]


def set_up_logging(quiet: bool) -> None:
    """Send log messages to standard error, one per line."""
    logger = logging.getLogger("vnait")
    logger.handlers[:] = [logging.StreamHandler()]  # replaced: `main` may run twice in one process
    logger.handlers[0].setFormatter(_Safe("vnait: %(message)s"))
    logger.setLevel(logging.ERROR if quiet else logging.INFO)
    logger.propagate = False


class _Safe(logging.Formatter):
    """Messages that can't steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return safe(super().format(record))


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
) -> tuple[Table, Table | None]:
    """The table of a source, and that of a file of test rows, whose columns have the same names."""
    read = partial(read_table, text=text, label=label, files=files, task=task)
    table = read(source, **asdict(labels))
    if test is None:
        return table, None
    known = () if task == "regression" else set(table.single_labels)
    return table, read(test, of_tests=True, **asdict(labels), known=known)


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
