"""Classifiers and regressors of texts with scikit-learn's contract."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from vnait import predict, schemas
from vnait.data import Pair, Table
from vnait.data.tables import CLASSIFICATION, REGRESSION
from vnait.data.vocabulary import vocabulary_of
from vnait.errors import InputError, as_input_error, first_line
from vnait.explanation import Explanation, explain
from vnait.linear import check_classes, check_one, check_texts
from vnait.model import VnaitForSequenceClassification
from vnait.record import plain
from vnait.run import Run
from vnait.tracking import Status
from vnait.train import fit
from vnait.vectors.training import LEARNED

Texts = Sequence[str] | Sequence[tuple[str, str]]

NOTES = "estimator.json"  # parameters and the labels' own types, beside the model's files


@dataclass(kw_only=True, eq=False, repr=False)
class _OfTexts(BaseEstimator):
    """The settings, the files and the texts of both estimators."""

    method: str = field(default=Run.method, kw_only=False)
    vectors: str | None = None
    tokenization: str = "words"
    steps: int | None = Run.steps
    batch_size: int = Run.batch_size
    learning_rate: float = Run.learning_rate
    dropout: float = Run.dropout
    num_layers: int = Run.num_layers
    max_length: int = Run.max_length
    tune_vectors: bool = Run.tune_vectors
    validation: float = Run.validation
    threads: int = Run.threads
    random_state: int | np.random.RandomState | None = Run.seed

    def _fit(
        self,
        given: list[str],
        labels: list[str],
        task: str,
        weights: list[float] | None,
        callback: Callable[[Status], None],
    ) -> Self:
        run = self._run()
        table = Table(texts=given, labels=labels, name="X", dropped=0, task=task)
        words = vocabulary_of(given, vectors=self.vectors, tokenization=self.tokenization, seed=run.seed)
        self.fitted_ = fit(run, table, words, weights=weights, callback=callback)
        self.seed_ = run.seed
        return self

    def _labels(self) -> list[Any]:
        """The labels of their own types, for the file beside the model's."""
        raise NotImplementedError

    def save(self, folder: str | Path) -> None:
        """Write the model folder; `vnait predict` and `from_pretrained` read it too."""
        check_is_fitted(self)
        parameters = {  # mappings as pairs: the keys of JSON are strings
            name: list(value.items()) if isinstance(value, Mapping) else value
            for name, value in self.get_params().items()
        }
        if isinstance(self.random_state, np.random.RandomState):
            parameters["random_state"] = self.seed_
        notes = {"parameters": parameters, "classes": self._labels()}
        self.fitted_.save(folder, extras={NOTES: json.dumps(notes, ensure_ascii=False, default=plain)})

    @classmethod
    def _load(cls, folder: str | Path, *, numbers: bool) -> tuple[Self, list[Any]]:
        """A saved estimator, this class's or one of `vnait train`, and its labels of their own types."""
        fitted = predict.load_transformer(folder)
        check_texts(fitted.tags)
        if not isinstance(fitted.model, VnaitForSequenceClassification):
            raise InputError(f"{folder} was fine-tuned from a pretrained base; read it with `vnait predict`.")
        check_classes(fitted.classes, no=numbers)
        check_one(fitted.several)
        known = cls._get_param_names()
        notes = _notes(Path(folder) / NOTES, fitted.classes, known)
        estimator = cls(**(notes["parameters"] if notes else _parameters(fitted, known)))
        estimator.fitted_ = fitted
        if fitted.record is not None:
            estimator.seed_ = fitted.record.seed
        return estimator, notes.get("classes", fitted.classes)

    def _run(self) -> Run:
        own, seed = self.get_params(deep=False), self.random_state
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = int(check_random_state(seed).randint(2**31 - 1))  # None: numpy's own generator
        return Run(seed=seed, **{one.name: own[one.name] for one in fields(Run) if one.name in own})

    def __getstate__(self) -> dict[str, Any]:
        if not hasattr(self, "fitted_"):
            return dict(super().__getstate__())
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "model")
            files = {path.name: path.read_bytes() for path in (Path(folder) / "model").iterdir()}
        return {"files": files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "files" not in state:
            super().__setstate__(state)
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, content in state["files"].items():
                (Path(folder) / name).write_bytes(content)
            self.__dict__.update(vars(type(self).load(folder)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class TextClassifier(ClassifierMixin, _OfTexts):
    """Texts and labels in, a trained Transformer classifier out.

    The settings are those of `Run` (`Run.help(name)`), and

    vectors         a file of semantic vectors; None: Word2Vec is trained on the texts themselves
    tokenization    "words", "characters" or "jieba"
    class_weight    how much the rows of each label count: {label: weight}, others 1; "balanced": rows of all
                    labels count the same in sum; None: each row 1
    random_state    `Run.seed` by scikit-learn's name: the same number gives the same model; None or a
                    RandomState: each fit draws one. `seed_` is the seed of the fit

    X is a sequence of strings, or of pairs of strings (n, 2); labels may be strings, numbers or booleans.
    Weights multiply the losses of their rows in training, for early stopping and in the linear part; only
    their ratios matter. Pickling goes through the model's own files.

    >>> texts, labels = ["good film", "bad plot"] * 8, ["pos", "neg"] * 8
    >>> clf = TextClassifier(method="none", steps=4).fit(texts, labels)
    >>> clf.classes_.tolist(), clf.predict_proba(["good film"]).shape
    (['neg', 'pos'], (1, 2))
    """

    class_weight: Mapping[Any, float] | str | None = None

    def fit(
        self,
        X: Texts,
        y: Sequence[Any],
        sample_weight: Sequence[float] | None = None,
        *,
        callback: Callable[[Status], None] = lambda status: None,
    ) -> Self:
        """Train on texts X (n,) and labels y (n,); `callback` gets a `Status` after each step.

        sample_weight   how much each row counts, 0 or more (n,), times its label's `class_weight`
        """
        given = _texts(X)
        classes, numbers = _classes(_checked(self, y, given))
        names = list(map(str, classes.tolist()))  # once a class: 1 and 1.0 are one, however they are written
        weights = _weights(self.class_weight, classes[numbers], sample_weight)
        self._fit(given, [names[number] for number in numbers], CLASSIFICATION, weights, callback)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Texts) -> NDArray[np.float64]:
        """P(class | text), (n, classes), in the order of `classes_`."""
        check_is_fitted(self)
        columns = [self.fitted_.classes.index(str(label)) for label in self.classes_.tolist()]
        return self.fitted_.probabilities(_texts(X))[:, columns]

    def predict(self, X: Texts) -> NDArray[Any]:
        """The most probable label of each text, (n,)."""
        check_is_fitted(self)
        answer: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return answer

    def explain(self, text: str) -> Explanation:
        """What the model sees of one text."""
        check_is_fitted(self)
        return explain(self.fitted_, text)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A saved classifier, this class's or one of `vnait train`."""
        estimator, labels = cls._load(folder, numbers=False)
        estimator.classes_ = np.asarray(labels)
        return estimator

    def _labels(self) -> list[Any]:
        return list(self.classes_.tolist())


@dataclass(kw_only=True, eq=False, repr=False)
class TextRegressor(RegressorMixin, _OfTexts):
    """Texts and numbers in, a trained Transformer that answers with numbers out.

    Settings, texts, pairs, weights and pickles are as in `TextClassifier`, without class_weight. Numbers are
    standardized by the training rows; answers have the unit of y, and `score` is their R^2.

    >>> texts, numbers = ["good film", "bad plot"] * 8, [4.5, 1.5] * 8
    >>> regressor = TextRegressor(method="none", steps=4).fit(texts, numbers)
    >>> regressor.predict(["good film"]).shape
    (1,)
    """

    def fit(
        self,
        X: Texts,
        y: Sequence[float],
        sample_weight: Sequence[float] | None = None,
        *,
        callback: Callable[[Status], None] = lambda status: None,
    ) -> Self:
        """Train on texts X (n,) and numbers y (n,); `callback` gets a `Status` after each step.

        sample_weight   how much each row counts, 0 or more (n,)
        """
        given = _texts(X)
        numbers = _numbers(_checked(self, y, given))
        weights = _weights(None, numbers, sample_weight)
        return self._fit(given, list(map(str, numbers.tolist())), REGRESSION, weights, callback)

    def predict(self, X: Texts) -> NDArray[np.float64]:
        """The number of each text, (n,), in the unit of y."""
        check_is_fitted(self)
        return self.fitted_.numbers(_texts(X))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A saved regressor, this class's or one of `vnait train --task regression`."""
        return cls._load(folder, numbers=True)[0]

    def _labels(self) -> list[Any]:
        return self.fitted_.classes


def _parameters(fitted: predict.Fitted, known: Sequence[str]) -> dict[str, Any]:
    """Which of the `known` parameters an estimator would have been given for a model of `vnait train`: what
    its record and its tokenizer say.
    """
    if fitted.record is None:
        return {"method": fitted.model.config.method}
    run, source = fitted.record.run, str(fitted.record.data.get("vectors", LEARNED))
    return {name: run[name] for name in known if name in run} | {
        "random_state": fitted.record.seed,
        "tokenization": fitted.tokenizer.init_kwargs["tokenization"],
        "vectors": None if source.startswith(LEARNED) else source,
    }


def _texts(X: Texts) -> list[str]:
    if isinstance(X, str):
        raise InputError("X is one string; give a list of texts.")
    shape = getattr(X, "shape", (0,))
    if len(shape) != 1 and shape[1:] != (2,):
        raise InputError(f"X has {len(shape)} dimensions; give one column of texts, or two for pairs.")
    rows = list(X if len(shape) == 1 else np.asarray(X, dtype=object))
    pairs = bool(rows) and not isinstance(rows[0], str) and np.shape(rows[0]) == (2,)
    wrong = next((row for row, found in enumerate(rows) if not _is_row(found, pairs)), None)
    if wrong is not None:
        expected = "two strings; give a pair" if pairs else "a string; give one string a text, or two"
        raise InputError(f"X[{wrong}] is {type(rows[wrong]).__name__}, not {expected} in every row.")
    if not rows:
        raise InputError("X is empty; give at least one text.")
    return [Pair.of(*map(str, row)) if pairs else str(row) for row in rows]


def _is_row(found: Any, pairs: bool) -> bool:
    """Whether it is a text, or two."""
    if not pairs:
        return isinstance(found, str)
    return not isinstance(found, str) and np.shape(found) == (2,) and all(isinstance(x, str) for x in found)


def _checked(estimator: BaseEstimator, y: Sequence[Any] | None, texts: Sequence[str]) -> NDArray[Any]:
    """The labels as an array, one a text, none missing."""
    import pandas as pd

    if y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; give one label a "
            "text."
        )
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(texts):
        raise InputError(f"y has shape {labels.shape} for {len(texts)} texts; give one label a text.")
    # As objects: among strings, numpy makes NaN the string "nan".
    missing = np.flatnonzero(pd.isna(np.asarray(y, dtype=object)))
    if missing.size:
        raise InputError(
            f"y has no label at row {missing[0]} ({len(missing)} in all); label these texts or leave them "
            "out."
        )
    return labels


def _numbers(labels: NDArray[Any]) -> NDArray[np.float64]:
    """The labels as finite numbers, of two rows or more."""
    with as_input_error((TypeError, ValueError), "y is not numbers: ", ".", says=first_line):
        numbers = labels.astype(object).astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise InputError(
            f"y has {numbers[wrong[0]]} at row {wrong[0]} ({len(wrong)} in all); give finite numbers."
        )
    if len(numbers) < 2:
        raise InputError("y has one sample; a regression needs two or more.")
    return numbers


def _classes(labels: NDArray[Any]) -> tuple[NDArray[Any], list[int]]:
    """The distinct labels in order, and the number of each text's."""
    try:
        classes, numbers = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = " and ".join(sorted({type(label).__name__ for label in labels.tolist()}))
        raise InputError(
            f"y mixes labels that have no order ({kinds}); give all as strings, or all as numbers."
        ) from error
    if len(classes) < 2:
        raise InputError(f"y has one class only ({classes[0]}); a classifier needs two or more.")
    return classes, numbers.tolist()


def _weights(
    class_weight: Mapping[Any, float] | str | None, labels: NDArray[Any], given: Sequence[float] | None
) -> list[float] | None:
    """A weight per row: that of its label times its own; None if neither is given."""
    if class_weight is None and given is None:
        return None
    with as_input_error((TypeError, ValueError), f"class_weight is {class_weight!r}: ", ".", says=first_line):
        weights = compute_sample_weight(class_weight, labels)
    if given is not None:
        with as_input_error((TypeError, ValueError), "sample_weight is not numbers: ", ".", says=first_line):
            own = np.asarray(given, dtype=float)
        if own.shape != (len(labels),):
            raise InputError(
                f"sample_weight has shape {own.shape} for {len(labels)} texts; give one number a text."
            )
        weights = weights * own
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size or not weights.any():
        first = wrong[:1].tolist()
        what = f"the weight of row {first[0]} is {weights[first[0]]}" if first else "every weight is zero"
        raise InputError(f"{what}; give finite numbers of 0 or more, not all of them 0.")
    left = np.unique(labels[weights > 0])
    if len(left) < 2:
        raise InputError(
            f"all rows with a weight above 0 have one label or class ({left[0]}); a training needs two or "
            "more."
        )
    found: list[float] = weights.tolist()
    return found


def _notes(path: Path, classes: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    """The parameters and the classes of a saved estimator; empty for a model of `vnait train`."""
    if not path.is_file():
        return {}
    with as_input_error((ValueError, TypeError, RecursionError), f"{path} is damaged: ", "."):
        notes = schemas.check(schemas.Estimator, json.loads(path.read_text(encoding="utf-8")))
        if sorted(map(str, notes["classes"])) != sorted(classes):
            raise ValueError(f"its classes aren't those of the model ({', '.join(classes)})")
        if isinstance(pairs := notes["parameters"].get("class_weight"), list):
            notes["parameters"]["class_weight"] = dict(pairs)
        if unknown := notes["parameters"].keys() - set(known):
            raise ValueError(f"no estimator has the parameter {min(unknown)}")
        return dict(notes)
