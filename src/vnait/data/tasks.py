"""The names of tasks, of what answers them, and the refusal of a model with another task."""

from collections.abc import Sequence

from vnait.shared.errors import InputError, did_you_mean

TASKS = "classification", "regression", "tagging", "multilabel"
CLASSIFICATION, REGRESSION, TAGGING, MULTILABEL = TASKS
PROBLEMS = {REGRESSION: "regression", MULTILABEL: "multi_label_classification"}  # transformers' names
NUMBER = "number"  # the one label of a model that answers with numbers
OTHERWISE = "none of these"  # the answer where no class is as probable as was required
ANSWERS = {  # of a model with each task, and what reads them in Python
    CLASSIFICATION: ("one class per text", "TextClassifier.load or predict.load"),
    REGRESSION: ("a number per text", "TextRegressor.load or predict.load"),
    TAGGING: ("a tag per word", "predict.load, and of_words"),
    MULTILABEL: ("any number of labels per text", "TextClassifier.load or predict.load"),
}


def check_task(task: str, *needed: str) -> None:
    """Raise InputError unless the task of a model is one of those needed."""
    if task not in needed:
        answers, reader = ANSWERS[task]
        wanted = " or ".join(ANSWERS[name][0] for name in needed)
        raise InputError(
            f"the model answers with {answers}, and this needs {wanted}; use `vnait predict` (in Python, "
            f"vnait.{reader})."
        )


def check_class(label: str, classes: Sequence[str]) -> None:
    """Raise InputError if the model has no such class."""
    if label not in classes:
        known = ", ".join(classes)
        raise InputError(
            f"the model has no class {label!r}; give one of {known}.{did_you_mean(label, classes)}"
        )
