"""A model card in the hub's format: the model, its training data, its scores and its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vnait.methods import METHODS
from vnait.record import Record
from vnait.results import Results, where

NAME = "README.md"
SCORES = ("accuracy", "macro_f1", "mcc")
MOST = 30  # classes in the table


def card(record: Record, facts: Mapping[str, Any], results: Results | None = None) -> str:
    """The text of a model's README.md.

    record    of the model's training
    facts     `vnait.data.summary` of the labelled rows
    results   of the comparison in which it was chosen
    """
    parts = [_front(record), _model(record), _data(record, facts), _scores(record)]
    if results is not None:
        parts.append(_comparison(results))
    return "\n\n".join([*parts, _limits(record, facts), _use()]) + "\n"


def _front(record: Record) -> str:
    """The YAML that the hub reads; without a language, which is not known."""
    from huggingface_hub import ModelCardData

    found = ModelCardData(
        library_name="vnait",
        pipeline_tag="text-classification",
        tags=["vnait", "positional-encoding", str(record.method)],
        metrics=["accuracy", "f1", "matthews_correlation"],
    )
    return f"---\n{found.to_yaml().strip()}\n---"


def _model(record: Record) -> str:
    base, method = record.run.get("base"), ""
    if base:
        kind = f"`{_source(base)}`, fine-tuned"
    elif record.method in METHODS:
        kind = "A small Transformer encoder, trained from scratch"
    else:
        kind = "A logistic regression of its words, without positions beyond pairs of neighbours"
    if base or record.method in METHODS:
        formula = f": `{METHODS[record.method].formula}`" if record.method in METHODS else ""
        method = f"Its positional method is `{record.method}`{formula}."
        if share := record.data.get("bag_share"):
            method += f" {100 * share:.0f} % of its logits come from a bag of words, without positions."
    return (
        f"# {_source(str(record.data['name']))}, {record.method}\n\n"
        f"{kind}; it classifies a text into one of {len(record.data['classes'])} labels. "
        f"It has {record.parameters:,} learned parameters.\n\n{method}"
    )


def _data(record: Record, facts: Mapping[str, Any]) -> str:
    quantiles = facts["tokens"]["quantiles"]
    shown = list(facts["classes"].items())
    lines = [
        "## Data",
        "",
        f"{_source(facts['name'])}: {facts['rows']:,} rows, {record.data['rows']:,} of them used for "
        f"training; {facts['duplicates']:,} repeat an earlier text. Tokens per text: median {quantiles[3]}, "
        f"90 % of the texts {quantiles[1]} to {quantiles[5]}, maximum {quantiles[-1]}.",
        "",
        *_table(("label", "rows"), [(label, f"{count:,}") for label, count in shown[:MOST]]),
    ]
    if len(shown) > MOST:
        lines += ["", f"And {len(shown) - MOST} rarer labels."]
    return "\n".join(lines)


def _scores(record: Record) -> str:
    rows = []
    for prefix, named in (("", "test"), ("validation_", "validation")):
        found = [record.metrics.get(prefix + name) for name in SCORES]
        if found[0] is not None:
            rows.append((f"{named} rows", *(f"{score:.3f}" for score in found)))
    if not rows:
        return "## Scores\n\nNo rows were held out, so its accuracy is not known."
    lines = ["## Scores", "", *_table(("on", "accuracy", "macro F1", "MCC"), rows)]
    if record.metrics.get("validation_accuracy") is not None:
        lines += [
            "",
            "Training was stopped by the validation rows, so their scores are slightly too high.",
        ]
    return "\n".join(lines)


def _comparison(results: Results) -> str:
    paired = {(row["method"], row["shots"]): row for row in results.paired}
    lines = [
        "## Comparison",
        "",
        "The model was chosen among these by validation scores. Accuracy is on the test rows, with 95 % "
        f"intervals over {len(results.seeds)} seeds; differences to `{results.reference}` are paired by "
        "seed.",
    ]
    for shots in results.shots:
        rows = sorted((row for row in results.rows if row["shots"] == shots), key=lambda row: -row["mean"])
        cells = [_row(row, paired.get((row["method"], shots))) for row in rows]
        heads = ("method", "accuracy", f"minus {results.reference}, points", "parameters", "seconds")
        lines += ["", f"{where(shots)}:", "", *_table(heads, cells)]
    return "\n".join([*lines, "", *(f"- {sentence}" for sentence in results.sentences())])


def _row(row: Mapping[str, Any], other: Mapping[str, Any] | None) -> tuple[str, ...]:
    difference = "" if other is None else _bounds(other, "difference", 100, "{:+.1f}")
    accuracy = _bounds(row, "mean", 1, "{:.3f}")
    return f"`{row['method']}`", accuracy, difference, f"{row['parameters']:,}", f"{row['seconds']:.1f}"


def _bounds(row: Mapping[str, Any], name: str, times: float, form: str) -> str:
    middle, low, high = (
        None if row[key] is None else form.format(times * row[key]) for key in (name, "ci_low", "ci_high")
    )
    return f"{middle}" if low is None or high is None else f"{middle} [{low}, {high}]"


def _limits(record: Record, facts: Mapping[str, Any]) -> str:
    lines = [
        "## Limits",
        "",
        "- Its scores are valid only for texts like those above.",
        f"- It answers any text with one of its {len(record.data['classes'])} labels; its probabilities are "
        "not calibrated.",
    ]
    if "max_length" in record.run:
        lines.append(f"- Longer texts are cut to {record.run['max_length']:,} tokens.")
    if "unknown_share" in record.data:
        share = 100 * record.data["unknown_share"]
        lines.append(
            f"- All words without a vector are the same to it: {share:.1f} % of the tokens in training."
        )
    if facts["rows"] < 1000:
        lines.append(f"- {facts['rows']:,} rows are few; another sample may give another model.")
    return "\n".join(lines)


def _use() -> str:
    return """## Use

    vnait predict FOLDER texts.csv
    vnait explain FOLDER "a text"

```python
from vnait.predict import load

fitted = load("FOLDER")
print(fitted.classes, fitted.probabilities(["a text"]))
```"""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(map(_plain, row))} |"


def _source(name: str) -> str:
    """The name of a data set or a base, without the folder, since a card may be published.

    >>> _source("/home/me/reviews.csv"), _source("hf:org/name"), _source("org/base")
    ('reviews.csv', 'hf:org/name', 'org/base')
    """
    local = Path(name).exists() or name.startswith((".", "/", "~")) or "\\" in name
    return _plain(Path(name.replace("\\", "/")).name if local else name)


def _plain(words: str) -> str:
    """The words on one line, without characters that end a cell or start a tag.

    >>> _plain("a|b <i>")
    'a&#124;b &lt;i>'
    """
    return " ".join(words.split()).replace("|", "&#124;").replace("<", "&lt;")
