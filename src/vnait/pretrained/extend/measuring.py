"""Every arm on every task: what is right, how long it takes, and how much memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from vnait.pretrained.extend.tasks import Task
from vnait.pretrained.extend.variants import WORDS, Embedder, Vectors, bm25, similarities
from vnait.shared.errors import InputError

FOLDS = 5
POLL_SECONDS = 0.01  # seconds between two looks at the memory
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Result:
    """Of one arm on one task.

    right    per document, whether it was found, or its label
    seconds  per document
    memory   most memory that was taken meanwhile, in MiB
    """

    arm: str
    task: Task
    right: NDArray[np.bool_]
    seconds: float
    memory: float


def measure(embedder: Embedder, arm: str, task: Task) -> Result:
    """An arm on a task; the time and memory are those of reading the documents."""
    if arm == WORDS:
        right, seconds, memory = costs(lambda: _by_words(task))
        return Result(arm=arm, task=task, right=right, seconds=seconds / len(right), memory=memory)
    queries = embedder.queries(task.queries) if task.queries else None
    with embedder.reading(arm) as encode:
        vectors, seconds, memory = costs(lambda: encode(task.texts))
    right = _labelled(vectors, task) if queries is None else found(similarities(queries, vectors))
    return Result(arm=arm, task=task, right=right, seconds=seconds / len(right), memory=memory)


def found(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Per query, whether its own document scores more than every other one, (N,) of (N, N)."""
    others = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores).max(1)
    right: NDArray[np.bool_] = scores.diagonal() > others
    return right


def costs(run: Callable[[], Answer]) -> tuple[Answer, float, float]:
    """What it returns, its seconds, and the MiB that it takes at most, of a GPU if there is one."""
    process, peak, done = psutil.Process(os.getpid()), [0], threading.Event()
    before = process.memory_info().rss

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            peak.append(max(peak.pop(), process.memory_info().rss - before))

    gpu = torch.cuda.is_available()
    if gpu:
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
    most = torch.cuda.max_memory_allocated() if gpu else peak[0]
    return answer, seconds, most / 2**20


def _by_words(task: Task) -> NDArray[np.bool_]:
    if task.queries:
        return found(bm25(task.queries, task.texts))
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
    return _labelled(list(vectorizer.fit_transform(task.texts).toarray()[:, None]), task)


def _labelled(vectors: Vectors, task: Task) -> NDArray[np.bool_]:
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
        rows = np.concatenate([vectors[one] for one in train])
        counts = [len(vectors[one]) for one in train]
        weights = np.repeat([1 / count for count in counts], counts)
        head = LogisticRegression(C=10, max_iter=2000)
        head.fit(rows, np.repeat(labels[train], counts), sample_weight=weights)
        for one in test:
            surest = head.predict_proba(vectors[one]).max(0).argmax()
            right[one] = head.classes_[surest] == labels[one]
    return right
