"""Documents found by their query, or labelled by those of other folds; and what a run costs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from vnait.pretrained.extend.tasks import Task
from vnait.shared.errors import InputError, as_input_error

FOLDS = 5
NO_WORDS = "the documents can't be compared by words: "
POLL_SECONDS = 0.01  # seconds between two looks at the memory
Answer = TypeVar("Answer")
Vectors = list[NDArray[np.float32]]  # per text: (V, D) of length 1, V = 1 but for windows apart


def ranked_first(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Per query, whether its own document scores more than every other one, (N,) of (N, N)."""
    others = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores).max(1)
    right: NDArray[np.bool_] = scores.diagonal() > others
    return right


def similarities(queries: NDArray[np.float32], documents: Vectors) -> NDArray[np.float64]:
    """Cosines (Q, N), of a document its largest."""
    return np.stack([(queries @ windows.T).max(-1) for windows in documents], -1).astype(np.float64)


def bm25(queries: Sequence[str], documents: Sequence[str]) -> NDArray[np.float64]:
    """sum over a query's words of idf(w) f (k + 1) / (f + k (1 - b + b l / mean l)), (Q, N); f is how often
    w is in the document, l its words, k = 1.5, b = .75, idf(w) = log(1 + (N - n + .5) / (n + .5)).

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), section 3.4.

    >>> bm25(["green fox"], ["a green tree", "a red fox, a fox"]).argmax()
    np.int64(1)
    """
    counter = CountVectorizer(token_pattern=r"\w+")
    with as_input_error(ValueError, NO_WORDS, "."):
        counts = counter.fit_transform(documents).toarray().astype(np.float64)
    lengths, holds = counts.sum(1, keepdims=True), (counts > 0).sum(0)
    inverse = np.log1p((len(documents) - holds + 0.5) / (holds + 0.5))
    weights = inverse * counts * 2.5 / (counts + 1.5 * (0.25 + 0.75 * lengths / lengths.mean()))
    return (counter.transform(queries).toarray() > 0) @ weights.T


def by_words(task: Task) -> NDArray[np.bool_]:
    """What words alone get right, without the model."""
    if task.queries:
        return ranked_first(bm25(task.queries, task.texts))
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
    with as_input_error(ValueError, NO_WORDS, "."):
        vectors = vectorizer.fit_transform(task.texts).toarray()
    return labelled(list(vectors[:, None]), task)


def labelled(vectors: Vectors, task: Task) -> NDArray[np.bool_]:
    """Whether a logistic regression of the other folds' documents gives a document its label.

    Of several windows each is an example, all of a document counting as one, and the surest decides.
    """
    labels = np.array(task.labels)
    fewest = min(np.unique(labels, return_counts=True)[1])
    if fewest < 2:
        raise InputError("a label occurs once; give two documents or more of each label.")
    right = np.zeros(len(labels), dtype=bool)
    folds = StratifiedKFold(min(FOLDS, int(fewest)), shuffle=True, random_state=0)
    for train, test in folds.split(labels, labels):
        rows = np.concatenate([vectors[row] for row in train])
        counts = [len(vectors[row]) for row in train]
        weights = np.repeat([1 / count for count in counts], counts)
        head = LogisticRegression(C=10, max_iter=2000)
        head.fit(rows, np.repeat(labels[train], counts), sample_weight=weights)
        for row in test:
            surest = head.predict_proba(vectors[row]).max(0).argmax()
            right[row] = head.classes_[surest] == labels[row]
    return right


def costs(run: Callable[[], Answer]) -> tuple[Answer, float, float]:
    """What it returns, its seconds, and the MiB that it takes at most beyond those that were taken before, of
    a GPU if there is one.
    """
    process, peak, done = psutil.Process(os.getpid()), [0], threading.Event()
    before = process.memory_info().rss

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            peak.append(max(peak.pop(), process.memory_info().rss - before))

    gpu = torch.cuda.is_available()
    if gpu:
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    started = time.perf_counter()
    try:
        answer = run()
    finally:
        seconds = time.perf_counter() - started
        done.set()
        watcher.join()
    most = torch.cuda.max_memory_allocated() - held if gpu else peak[0]
    return answer, seconds, most / 2**20
