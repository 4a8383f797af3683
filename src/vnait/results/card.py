"""A model card in the hub's format: the model, its training data, its scores and its limits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vnait.data.coverage import written
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING
from vnait.positions.methods import METHODS
from vnait.results.record import Record
from vnait.results.results import Results, interval_of
from vnait.shared.escaping import safe

NAME = "README.md"
SCORES = {
    CLASSIFICATION: {"accuracy": "accuracy", "macro_f1": "macro F1", "mcc": "MCC"},
    REGRESSION: {"rmse": "RMSE", "mae": "MAE", "pearson": "Pearson", "spearman": "Spearman"},
    TAGGING: {"token_accuracy": "token accuracy", "macro_f1": "macro F1", "entity_f1": "entity F1"},
    MULTILABEL: {"micro_f1": "micro F1", "macro_f1": "macro F1", "exact_match": "exact match"},
}
ON_HUB = {  # the hub's names of them
    CLASSIFICATION: ["accuracy", "f1", "matthews_correlation"],
    REGRESSION: ["rmse", "mae", "pearsonr", "spearmanr"],
    TAGGING: ["accuracy", "f1"],
    MULTILABEL: ["f1", "exact_match"],
}
SIMPLE = {  # what a simple model reads
    "tfidf": "words, pairs of neighbours and n-grams of letters, without their places",
    "one-hot": "words and pairs of neighbours at their places, from the start and from the end",
    "averaged": "the mean of its word vectors, without their places",
    "base:frozen": "the embedding of a pretrained encoder",
    "frequent-tag": "each word alone",
    "window-logreg": "each word, its neighbours and its letters",
}
MAX_CLASSES = 30  # classes in the table


def card(record: Record, facts: Mapping[str, Any], results: Results | None = None) -> str:
    """The text of a model's README.md, by the template card.md.

    record    of the model's training
    facts     `vnait.data.summary` of the labelled rows
    results   of the comparison in which it was chosen
    """
    from huggingface_hub import ModelCardData
    from jinja2 import Environment, PackageLoader, StrictUndefined

    task = record.data.get("task", CLASSIFICATION)
    scored = {name.removeprefix("validation_") for name in record.metrics}
    titles = {name: title for name, title in SCORES[task].items() if name in scored}
    front = ModelCardData(  # the YAML that the hub reads; without a language, which is not known
        library_name="vnait",
        pipeline_tag="token-classification" if task == TAGGING else "text-classification",
        tags=["vnait", "positional-encoding", str(record.method)],
        metrics=ON_HUB[task],
    )
    environment = Environment(
        loader=PackageLoader("vnait.results", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"plain": _plain, "source": _source, "interval": _interval}
    text = environment.get_template("card.md").render(
        front=front.to_yaml().strip(),
        record=record,
        facts=facts,
        results=results,
        differences={} if results is None else {(row["method"], row["shots"]): row for row in results.paired},
        task=task,
        chosen=_chosen(record, results),
        learned=_learned(record),
        titles=titles,
        scores=_scores(record, titles),
        weighted=_weighted(record.run.get("class_weight")),
        methods=METHODS,
        simple=SIMPLE,
        most=MAX_CLASSES,
        coverage=written(record.data["coverage"]) if "coverage" in record.data else "",
    )
    return safe(text)


def _chosen(record: Record, results: Results | None) -> str:
    """What the validation rows decided; "" for nothing."""
    if results is not None:
        return "The model was chosen"
    if record.run.get("holdout"):
        return "The best step was chosen"
    many = record.data["rows"] > record.run.get("early_stopping", float("inf"))
    return "Training was stopped" if many else ""


def _learned(record: Record) -> int:
    """The rows that the model learned from."""
    held = record.data.get("validation_rows", 0) if record.run.get("holdout") else 0
    return int(record.data["rows"]) - int(held)


def _weighted(class_weight: Mapping[str, float] | str | None) -> str:
    """How much the rows of each label count in training; "" where all count the same."""
    if not class_weight:
        return ""
    if isinstance(class_weight, str):
        return "In training, the rows of all labels count the same in sum (balanced class weights)."
    weights = ", ".join(f"{_plain(name)} {weight:g}" for name, weight in class_weight.items())
    return f"In training, a row counts as much as its label: {weights}, any other 1."


def _scores(record: Record, names: Mapping[str, str]) -> dict[str, list[str]]:
    """The written scores of the test rows and of the validation rows, as far as rows were held out."""
    written = {
        rows: [_score(name, record.metrics.get(prefix + name)) for name in names]
        for rows, prefix in (("test", ""), ("validation", "validation_"))
    }
    return {rows: cells for rows, cells in written.items() if cells and cells[0]}


def _score(name: str, score: float | None) -> str:
    if score is None:
        return ""
    return f"{score:.4g}" if name in ("rmse", "mae") else f"{score:.3f}"  # of any unit, or in [-1, 1]


def _interval(row: Mapping[str, Any] | None, form: str, times: float) -> str:
    return "" if row is None else interval_of(row).times(times).written(form)


def _source(name: str) -> str:
    """The name of a data set or a base, without the folder, since a card may be published.

    >>> _source("/home/me/reviews.csv"), _source("hf:org/name"), _source("org/base")
    ('reviews.csv', 'hf:org/name', 'org/base')
    """
    local = Path(name).exists() or name.startswith((".", "/", "~")) or "\\" in name
    return _plain(Path(name.replace("\\", "/")).name if local else name)


_ENTITIES = str.maketrans({sign: f"&#{ord(sign)};" for sign in "|[`"} | {"<": "&lt;"})


def _plain(words: str) -> str:
    """The words on one line, without characters that end a cell or start a tag, a link or code.

    >>> _plain("a|b <i> [c](d)")
    'a&#124;b &lt;i> &#91;c](d)'
    """
    return " ".join(words.split()).translate(_ENTITIES)
