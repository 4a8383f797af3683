"""Classifiers and regressors of texts with scikit-learn's contract."""

import json
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from vnait.data import Table
from vnait.data.labels import warn_of_variants
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, REGRESSION, check_task
from vnait.data.vectors.training import LEARNED
from vnait.data.vocabulary import vocabulary_of
from vnait.results.explanation import Explanation, explain
from vnait.shared import schemas
from vnait.shared.errors import InputError, as_input_error
from vnait.shared.escaping import json_text
from vnait.shared.files import home
from vnait.shared.keys import plain
from vnait.shared.processes import threads
from vnait.train import predict
from vnait.train.arrays import (
    Texts,
    cells_of,
    checked_labels,
    classes_of,
    column_names,
    numbers_of,
    texts_of,
    weights_of,
)
from vnait.train.baselines import fit_baseline
from vnait.train.fitting import fit
from vnait.train.linear import LinearClassifier
from vnait.train.predict import Fitted
from vnait.train.run import RATE, READS_VECTORS, SIMPLE, Run
from vnait.train.tracking import Status

logger = logging.getLogger("vnait")

NOTES = "estimator.json"  # parameters and the labels' own types, beside the model's files


@dataclass(kw_only=True, eq=False, repr=False)
class _OfTexts(BaseEstimator):
    """The settings, the files and the texts of both estimators."""

    method: str = field(default=Run.method, kw_only=False)
    vectors: str | None = None
    vector_words: int | None = None
    tokenization: str = "words"
    steps: int | None = Run.steps
    batch_size: int = Run.batch_size
    learning_rate: float = RATE
    dropout: float = Run.dropout
    num_layers: int = Run.num_layers
    max_length: int = Run.max_length
    tune_vectors: bool = Run.tune_vectors
    smoothness: float = Run.smoothness
    boundary: float = Run.boundary
    validation: float = Run.validation
    threads: int = Run.threads
    random_state: int | np.random.RandomState | None = Run.seed
    fitted_: Fitted | LinearClassifier = field(init=False, repr=False)

    def _fit(
        self,
        texts: list[str],
        labels: list[str],
        task: str,
        weights: list[float] | None,
        callback: Callable[[Status], None],
    ) -> Self:
        run, simple = self._run(), self.method in SIMPLE
        table = Table(texts=texts, labels=labels, name="X and y", dropped=0, task=task)
        words = None
        if not simple or self.method in READS_VECTORS:
            words = vocabulary_of(
                texts,
                vectors=self.vectors,
                tokenization=self.tokenization,
                seed=run.seed,
                vector_words=self.vector_words,
            )
        if not simple:
            assert words is not None
            self.fitted_ = fit(run, table, words, weights=weights, callback=callback)
        else:
            with threads(run.threads):
                self.fitted_ = fit_baseline(
                    self.method,
                    table,
                    words=words,
                    tokenization=self.tokenization,
                    seed=run.seed,
                    validation=run.held_out(len(table)),
                    weights=None if weights is None else np.asarray(weights),
                )
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
        self.fitted_.save(folder, extras={NOTES: json_text(notes, default=plain)})

    @classmethod
    def _load(cls, folder: str | Path, *, numbers: bool) -> tuple[Self, list[Any]]:
        """A saved estimator, this class's or one of `vnait train`, and its labels of their own types."""
        folder = home(folder)
        fitted = predict.load(folder)
        check_task(fitted.task, *([REGRESSION] if numbers else [CLASSIFICATION, MULTILABEL]))
        known = cls._get_param_names()
        notes = _notes(Path(folder) / NOTES, fitted, known)
        estimator = cls(**(notes["parameters"] if notes else _parameters(fitted, known)))
        estimator.fitted_ = fitted
        if fitted.record is not None:
            estimator.seed_ = fitted.record.seed
        return estimator, notes.get("classes", fitted.classes)

    def _run(self) -> Run:
        names = {setting.name for setting in fields(self)} & {setting.name for setting in fields(Run)}
        names -= {"class_weight"}  # among the weights of the rows, since labels have types of their own here
        parameters = {name: getattr(self, name) for name in names}  # also where a subclass takes fewer
        seed = self.random_state
        if self.method in SIMPLE:  # reads none of the other settings
            parameters["method"] = Run.method
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = int(check_random_state(seed).randint(2**31 - 1))  # None: numpy's own generator
        elif not isinstance(seed, int | np.integer):
            raise InputError(f"random_state is {seed!r}; give a whole number, a RandomState or None.")
        run = Run(seed=seed, **parameters)
        penalties = ("smoothness", "boundary")
        try:
            run.check_penalties([name for name in penalties if parameters[name] != getattr(Run, name)])
        except InputError as error:  # a grid search may try several methods
            logger.warning("%s", error)
        return run

    def __getstate__(self) -> dict[str, Any]:
        if not hasattr(self, "fitted_"):
            return dict(super().__getstate__())
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            self.fitted_.save(model)
            paths = [path for path in model.rglob("*") if path.is_file()]
            files = {path.relative_to(model).as_posix(): path.read_bytes() for path in paths}
        state = {**super().__getstate__(), "fitted_": files}
        if "classes_" in state:  # plain values, as all of ours in a pickle
            state["classes_"] = (state["classes_"].dtype.str, state["classes_"].tolist())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "fitted_" in state:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in state["fitted_"].items():
                    path = Path(folder, name)
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(content)
                state = {**state, "fitted_": predict.load(folder)}
        if "classes_" in state:
            kind, labels = state["classes_"]
            state["classes_"] = np.array(labels, dtype=kind)
        super().__setstate__(state)

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
    vector_words    first words of that file that the model knows, beside those of the texts;
                    None: 50,000
    tokenization    "words", "characters" or "jieba"
    class_weight    how much the rows of each label count: {label: weight}, others 1; "balanced": rows of all
                    labels count the same in sum; None: each row 1. Not for a matrix of labels
    random_state    `Run.seed` by scikit-learn's name: the same number gives the same model; None or a
                    RandomState: each fit draws one. `seed_` is the seed of the fit

    X is a sequence of strings, or of pairs of strings (n, 2); labels may be strings, numbers or booleans.
    Where a text has any number of labels, y is a matrix of 0 and 1 (n, labels), and so are the answers: 1
    where P > 1/2; `score` is the share of rows that are right as a whole. `classes_` are the names of a data
    frame's columns, else their numbers.

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
        """Train on texts X (n,) and labels y (n,) or (n, labels); `callback` gets a `Status` after a step.

        sample_weight   how much each row counts, 0 or more (n,), times its label's `class_weight`
        """
        texts = texts_of(X)
        labels = checked_labels(self, y, texts, matrix=True)
        if labels.ndim == 2:
            if self.class_weight is not None:
                raise InputError(
                    "class_weight is for one label per text; give sample_weight with a matrix y."
                )
            weights = weights_of(None, labels, sample_weight)
            self.classes_ = column_names(y, labels.shape[1])
            cells = cells_of(labels, list(map(str, self.classes_.tolist())))
            return self._fit(texts, cells, MULTILABEL, weights, callback)
        classes, numbers = classes_of(labels)
        # Once per class: 1 and 1.0 are one, however they are written.
        names = list(map(str, classes.tolist()))
        weights = weights_of(self.class_weight, classes[numbers], sample_weight)
        written = [names[number] for number in numbers]
        warn_of_variants(written, "y")
        self._fit(texts, written, CLASSIFICATION, weights, callback)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Texts) -> NDArray[np.float64]:
        """P(class | text), (n, classes), in the order of `classes_`; 0 for a label that no text had."""
        check_is_fitted(self)
        known, names = self.fitted_.classes, list(map(str, self.classes_.tolist()))
        probabilities = self.fitted_.probabilities(texts_of(X))
        answer = np.zeros((len(probabilities), len(names)))
        answer[:, [names.index(name) for name in known]] = probabilities
        return answer

    def predict(self, X: Texts) -> NDArray[Any]:
        """The most probable label of each text, (n,), or a 1 for each that is probable, (n, labels)."""
        check_is_fitted(self)
        probabilities = self.predict_proba(X)
        if self.fitted_.task == MULTILABEL:
            return (probabilities > 0.5).astype(int)
        answer: NDArray[Any] = self.classes_[probabilities.argmax(1)]
        return answer

    def explain(self, text: str, *, label: str | None = None) -> Explanation | dict[str, Any]:
        """Why a text's class is `label`, by default the answer, or is not; of a simple model as
        `LinearClassifier.explain`.
        """
        check_is_fitted(self)
        if not isinstance(text, str):
            raise InputError(f"explain takes one text, not a {type(text).__name__}.")
        if isinstance(self.fitted_, LinearClassifier):
            return self.fitted_.explain(text, label)
        return explain(self.fitted_, text, label=label)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A saved classifier of any kind, this class's or one of `vnait train` or `vnait compare`."""
        estimator, labels = cls._load(folder, numbers=False)
        estimator.classes_ = np.asarray(labels)
        return estimator

    def _labels(self) -> list[Any]:
        return list(self.classes_.tolist())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


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
        texts = texts_of(X)
        numbers = numbers_of(checked_labels(self, y, texts))
        weights = weights_of(None, numbers, sample_weight)
        return self._fit(texts, list(map(str, numbers.tolist())), REGRESSION, weights, callback)

    def predict(self, X: Texts) -> NDArray[np.float64]:
        """The number of each text, (n,), in the unit of y."""
        check_is_fitted(self)
        return self.fitted_.numbers(texts_of(X))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A saved regressor of any kind, as `TextClassifier.load`."""
        return cls._load(folder, numbers=True)[0]

    def _labels(self) -> list[Any]:
        return self.fitted_.classes


def _parameters(fitted: Fitted | LinearClassifier, known: Sequence[str]) -> dict[str, Any]:
    """Which of the `known` parameters an estimator would have been given for a model of `vnait train`: those
    that its record states.
    """
    if fitted.record is None:
        name = fitted.name if isinstance(fitted, LinearClassifier) else fitted.model.config.method
        return {"method": name}
    run, source = fitted.record.run, str(fitted.record.data.get("vectors", LEARNED))
    settings = {name: run[name] for name in known if name in run}
    settings |= {"method": fitted.record.method, "random_state": fitted.record.seed}
    if isinstance(fitted, LinearClassifier) or fitted.max_length is None:  # a base has its own words
        settings["vectors"] = None if source.startswith(LEARNED) else source
    if isinstance(fitted, Fitted) and fitted.max_length is None:
        settings["tokenization"] = fitted.tokenizer.init_kwargs["tokenization"]
    return settings


def _notes(path: Path, fitted: Fitted | LinearClassifier, known: Sequence[str]) -> dict[str, Any]:
    """The parameters and the classes of a saved estimator; empty for a model of `vnait train`."""
    if not path.is_file():
        return {}
    with as_input_error((ValueError, TypeError, RecursionError), f"{path} is damaged: ", "."):
        notes = schemas.check(schemas.Estimator, json.loads(path.read_text(encoding="utf-8")))
        names = list(map(str, notes["classes"]))
        if fitted.task == MULTILABEL:  # no text may have had one of them
            names = [name for name in names if name in fitted.classes]
        if sorted(names) != sorted(fitted.classes):
            raise ValueError(f"its classes aren't those of the model ({', '.join(fitted.classes)})")
        if isinstance(pairs := notes["parameters"].get("class_weight"), list):
            notes["parameters"]["class_weight"] = dict(pairs)
        for name in sorted(notes["parameters"].keys() - set(known)):
            logger.warning("%s: the parameter %s is not known here; it is ignored.", path, name)
            del notes["parameters"][name]
        return dict(notes)
