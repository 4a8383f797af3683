"""Passages hidden in long texts, for a language model: it reads the text, then the beginning of the passage,
and is right if it goes on as the passage does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnait.pretrained.extend.tasks import GENERATED, Task

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Hidden:
    """Ids of a text that ends with the first sentence of its passage, of which the last word is the answer.

    opening, answer   how many ids, at the end, the sentence has without that word, and the word
    """

    ids: Ids
    opening: int
    answer: int


def sentence_of(passage: str) -> tuple[str, str]:
    """The first sentence without its last word, and that word.

    >>> sentence_of("The passkey for Ada is 47213. Remember it.")
    ('The passkey for Ada is', ' 47213')
    """
    opening, word = passage.split(".")[0].rsplit(" ", 1)
    return opening, f" {word}"


def hidden(name: str, tokenizer: Any, length: int, count: int) -> tuple[Task, list[Hidden]]:
    """A generated task, and its texts of up to `length` tokens with their ends; `InputError` if they are too
    short for it.
    """

    def ids_of(text: str) -> Ids:
        return np.array(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    make = GENERATED[name]
    sentences = map(sentence_of, make(tokenizer, length, count).passages)
    ends = [(ids_of(f"\n{opening}"), ids_of(answer)) for opening, answer in sentences]
    task = make(tokenizer, length - max(len(opening) + len(answer) for opening, answer in ends), count)
    texts = [
        Hidden(np.concatenate([ids_of(text), opening, answer]), len(opening), len(answer))
        for text, (opening, answer) in zip(task.texts, ends, strict=True)
    ]
    return replace(task, lengths=(length,) * count), texts
