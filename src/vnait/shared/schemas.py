"""The structure of every JSON file that is read: what is not so is one sentence, wherever it was read."""

import json
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

from vnait.shared.errors import as_input_error, first_line, has_surrogate

logger = logging.getLogger("vnait")

Number = int | float
ROUNDING = 1e-9  # by which a correlation may pass 1
MAX_INTEGER = 2**63 - 1  # of an integer in PyTorch


class RunData(TypedDict, total=False):
    """The data of a `Record`."""

    name: str
    rows: int
    validation_rows: int
    unlabelled_rows: int
    shots: int | str
    classes: list[str]
    unknown_share: Number
    coverage: dict[str, dict[str, Number]]
    bag_share: Number
    linear_part: str
    task: str
    vectors: str | None


class Metrics(TypedDict, total=False):
    """The metrics of a `Record` that reports read."""

    accuracy: Number
    accuracy_alone: Number
    macro_f1: Number
    mcc: Number
    ms_per_text: Number
    validation_accuracy: Number
    confusion: list[list[int]]
    length_right: list[int]
    right: str
    length_squares: list[Number]
    token_accuracy: Number
    entity_f1: Number
    validation_token_accuracy: Number
    validation_entity_f1: Number
    micro_f1: Number
    micro_f1_alone: Number
    exact_match: Number
    validation_micro_f1: Number
    by_label: list[list[int]]
    rmse: Number
    mae: Number
    pearson: Number
    spearman: Number
    validation_rmse: Number
    length_rows: list[int]


class RecordFields(TypedDict):
    """A line of records.jsonl."""

    key: str
    method: str
    seed: int
    run: dict[str, Any]
    data: RunData
    metrics: Metrics
    parameters: int
    seconds: Number
    peak_memory: Number
    versions: dict[str, str]
    commit: str | None


class Tokens(TypedDict):
    """The lengths in a `Summary`."""

    quantiles: list[Number]
    edges: list[Number]
    rows: list[int]


class Summary(TypedDict):
    """What `vnait.data.summary` returns."""

    numbers: NotRequired[list[Number]]  # of a regression
    name: str
    rows: int
    dropped: int
    duplicates: int
    classes: dict[str, int]
    tokens: Tokens


class AboutFields(TypedDict):
    """about.json of a comparison."""

    command: str
    reference: str
    runs: list[str]
    data: Summary
    test: Summary | None
    repeated: int
    most_frequent: Number


class Estimator(TypedDict):
    """estimator.json of a `TextClassifier` or a `TextRegressor`."""

    parameters: dict[str, Any]
    classes: list[str | int | float | bool]


class Part(TypedDict):
    """Features of one kind of a linear model."""

    kind: str
    terms: list[str]
    tokenization: NotRequired[str]
    unknown: NotRequired[str | None]


class Baseline(TypedDict):
    """baseline.json of a linear model; that of a pooled encoder has no parts."""

    format: int
    name: str
    task: Literal["classification", "multilabel", "regression", "tagging"]
    pairs: NotRequired[bool]
    classes: list[str]
    inputs: int
    parts: list[Part]


class Tuned(TypedDict):
    """tuned.json of a fine-tuned base."""

    pairs: NotRequired[bool]
    task: NotRequired[str]  # of one that tags words
    method: str
    max_length: int
    base: NotRequired[str]  # of LoRA's adapters
    fingerprint: NotRequired[str]


# The base of an adapter; "class" is a word of Python.
AdapterBase = TypedDict("AdapterBase", {"name": str, "class": str, "sha256": str})


class Adapter(TypedDict):
    """vnait.json of an adapter."""

    format: NotRequired[int]
    scale: NotRequired[dict[str, Number]]  # older adapters have none
    base: AdapterBase | None  # None: in the folder of the model that has it
    weights_sha256: str
    method: str | None
    decoder: str | None
    described: list[str]
    cross: str | None
    warm_start: str | None
    options: dict[str, Any]


class Config(TypedDict, total=False):
    """config.json of a vnait classifier, of which transformers checks the rest."""

    architectures: list[str]
    method: str
    max_length: int
    hidden_size: int
    vector_size: int | None
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    pad_token_id: int | None
    unk_token_id: int | None
    one_hot_terms: int
    id2label: dict[str, str]


class TokenizerConfig(TypedDict, total=False):
    """tokenizer_config.json of a vnait classifier."""

    model_max_length: Number
    tokenization: str


def _has_terms(content: Mapping[str, Any]) -> bool:
    """Whether a part of a linear model has distinct terms, and what else its kind needs."""
    kind, terms = content["kind"], content["terms"]
    if kind in ("words", "letters", "places", "mean") and "tokenization" not in content:
        return False
    known = kind in ("words", "letters", "places", "mean", "word", "window")
    return known and len(set(terms)) == len(terms) and (kind != "mean" or content.get("unknown") in terms)


# What types can't state: a rule, and what is wrong where it is broken.
_RULES: dict[Any, tuple[Callable[[Mapping[str, Any]], bool], str]] = {
    Part: (
        _has_terms,
        "a kind other than words, letters, places, mean, word and window, or other terms than that kind has",
    ),
    Metrics: (
        lambda content: (
            len(content.get("length_rows", ()))
            == len(content.get("length_right", content.get("length_squares", ())))
            and re.fullmatch("([0-9a-f]{2})*", content.get("right", "")) is not None
        ),
        "length_rows and length_right of different lengths, or right rows in other than hexadecimal digits",
    ),
    RunData: (
        lambda content: content.get("shots", "all") == "all" or isinstance(content["shots"], int),
        "wrong shots",
    ),
    RecordFields: (
        lambda content: (
            all(
                len(row) == len(content["data"].get("classes", ()))
                for row in content["metrics"].get("confusion", ())
            )
            and [len(row) for row in content["metrics"].get("by_label", ())]
            in ([], [3] * len(content["data"].get("classes", ())))
        ),
        "a confusion matrix or counts of other classes",
    ),
    AboutFields: (lambda content: len(content["runs"]) > 0, "no runs"),
    Summary: (lambda content: len(content.get("numbers", range(7))) == 7, "other than seven numbers"),
    Tokens: (
        lambda content: len(content["quantiles"]) == 7 and len(content["edges"]) == len(content["rows"]),
        "other than seven quantiles, or edges without rows",
    ),
}

_FILES: dict[Any, str] = {  # whose further keys are noted; others' come from transformers, or are ours
    RecordFields: "a record",
    AboutFields: "about.json",
    Estimator: "estimator.json",
    Part: "baseline.json",
    Baseline: "baseline.json",
    Tuned: "tuned.json",
    Adapter: "vnait.json",
}

# The ranges of numbers; of every number elsewhere, it is finite.
_SHARES = (
    *("accuracy", "accuracy_alone", "macro_f1", "token_accuracy", "entity_f1"),
    *("micro_f1", "micro_f1_alone", "exact_match"),
)
_RANGES: dict[Any, dict[str, tuple[float, float]]] = {
    Metrics: {
        **dict.fromkeys(_SHARES, (0, 1)),
        **dict.fromkeys((f"validation_{name}" for name in _SHARES), (0, 1)),
        **dict.fromkeys(("mcc", "pearson", "spearman"), (-1, 1)),
        **dict.fromkeys(("rmse", "mae", "validation_rmse", "ms_per_text"), (0, math.inf)),
    },
    RunData: {
        **dict.fromkeys(("unknown_share", "bag_share"), (0, 1)),
        **dict.fromkeys(("rows", "validation_rows", "unlabelled_rows"), (0, math.inf)),
    },
    RecordFields: dict.fromkeys(("parameters", "seconds", "peak_memory"), (0, math.inf)),
    AboutFields: {"repeated": (0, math.inf), "most_frequent": (0, math.inf)},
    Summary: dict.fromkeys(("rows", "dropped", "duplicates"), (0, math.inf)),
    Tuned: {"max_length": (1, MAX_INTEGER)},
}


def check(schema: Any, content: object, place: str = "it") -> Any:
    """Return the content if it has the keys and types of the TypedDict; else a ValueError names the fault.

    Keys that the schema lacks, as a later version may write, are left alone, with a note. Numbers are finite.

    >>> check(Tuned, {"method": "vnait", "max_length": "long"})
    Traceback (most recent call last):
    ValueError: its max_length is 'long', expected int
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"{place} is {_shown(content)}, expected an object")
    for value in _values(content):
        if isinstance(value, str) and has_surrogate(value):
            raise ValueError(f"{place} has {_shown(value)}, with half a character")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{place} has {value}, which is not a finite number")
    of = "its" if place == "it" else f"{place}'s"
    for name, kind in _hints(schema).items():
        if name in content:
            _check_value(kind, content[name], f"{of} {name}")
        elif name in schema.__required_keys__:
            raise ValueError(f"{place} has no {name}")
    for name, (low, high) in _RANGES.get(schema, {}).items():
        if name in content and not low - ROUNDING <= content[name] <= high + ROUNDING:
            ends = f"{low} or more" if high == math.inf else f"a number in [{low}, {high}]"
            raise ValueError(f"{of} {name} is {content[name]}, expected {ends}")
    if schema in _FILES:
        for name in sorted(content.keys() - _hints(schema)):
            _note(_FILES[schema], _shown(name))
    holds, wrong = _RULES.get(schema, (None, ""))
    if holds is not None and not holds(content):
        raise ValueError(f"{place} has {wrong}")
    return content


@cache  # once in a process, not for each record
def _note(file: str, key: str) -> None:
    logger.warning("%s has the key %s, which this version does not know; it is ignored.", file, key)


def known(schema: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content without the keys that the schema lacks."""
    return {name: content[name] for name in _hints(schema) if name in content}


def read(schema: Any, path: Path, after: str = ".") -> Any:
    """The checked content of a JSON file; an InputError ends with `after`, what to do."""
    kinds = (ValueError, TypeError, RecursionError)
    with as_input_error(kinds, f"{path} is damaged: ", after, message=first_line):
        return check(schema, json.loads(path.read_text(encoding="utf-8")))


def _check_value(kind: Any, value: object, place: str) -> None:
    from huggingface_hub.dataclasses import type_validator

    inner = next((part for part in (kind, *get_args(kind)) if is_typeddict(part)), None)
    if inner is not None:
        if get_origin(kind) is list:
            if not isinstance(value, list):
                raise ValueError(f"{place} is {_shown(value)}, expected list")
            for number, part in enumerate(value):
                check(inner, part, f"{place}[{number}]")
        elif value is not None or inner is kind:
            check(inner, value, place)
        return
    if isinstance(value, int) and abs(value) > MAX_INTEGER and kind != Number:  # a float holds it
        raise ValueError(f"{place} is {_shown(value)}, expected an integer of 64 bits")
    try:
        type_validator(place, value, kind)
    except TypeError as error:
        expected = (
            getattr(kind, "__name__", "") if isinstance(kind, type) and not get_args(kind) else str(kind)
        )
        raise ValueError(f"{place} is {_shown(value)}, expected {expected}") from error


def _values(value: object) -> Iterator[object]:
    """All keys, texts and numbers within a value of JSON."""
    if isinstance(value, Mapping | list):
        for inner in chain(value, value.values() if isinstance(value, Mapping) else ()):
            yield from _values(inner)
    else:
        yield value


@cache
def _hints(schema: Any) -> dict[str, Any]:
    return get_type_hints(schema)


def _shown(value: object) -> str:
    written = ascii(value)
    return written if len(written) <= 40 else written[:39] + "..."
