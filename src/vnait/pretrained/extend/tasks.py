"""What long texts are tried on: generated passkeys and needles, and a file of the user's own."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnait.shared.errors import InputError

MAX_TEXTS = 30  # texts per length of generated tasks: so many needles there are
GROUND = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
FIRST = ("Ada", "Boris", "Chloe", "Diego", "Elif", "Femi")
LAST = ("Archer", "Brandt", "Costa", "Dvorak", "Eriksen")
# A fact, and a question in other words.
NEEDLES = (
    ("The lighthouse at Cape Orlen was painted orange in 1952.", "Which colour did the coastal beacon get?"),
    ("Marta's grandmother hid her wedding ring inside a jar of flour.", "Where was the jewellery concealed?"),
    ("The best soup in Lindvik is served on a ferry.", "Where should I eat broth in that town?"),
    ("A heron stole the mayor's hat during the spring parade.", "Which bird took the politician's headgear?"),
    ("The piano in room seven has only eighty keys.", "How many notes can the instrument play?"),
    ("Professor Halim writes his lectures with his left foot.", "How does the scholar prepare his classes?"),
    ("The village of Torrek closes its only bridge every Tuesday.", "When can nobody cross the river there?"),
    ("Rosa keeps a tame fox that likes cold coffee.", "What does the unusual pet drink?"),
    ("The old mill was bought by a maker of violins.", "Who purchased the building by the stream?"),
    ("Snow fell on the desert station in the middle of July.", "What weather surprised the dry outpost?"),
    ("The winning pumpkin weighed as much as a small car.", "How heavy was the prize vegetable?"),
    ("Captain Ruiz never sails without a red umbrella.", "What does the seaman always take aboard?"),
    ("The museum lost its smallest painting in a taxi.", "Where did the gallery leave an artwork?"),
    ("Bees in the cathedral roof made forty jars of honey.", "Which insects live above the church?"),
    ("The dentist of Quell plays chess against her patients.", "What game does the tooth doctor enjoy?"),
    ("A clock in the harbour runs backwards since the flood.", "What happened to the timepiece by the port?"),
    (
        "The baker's twins were born on two different continents.",
        "Where did the bread maker's children arrive?",
    ),
    ("Lake Immer turns violet for three days each autumn.", "Which water changes its tint in the fall?"),
    ("The thief returned the bicycle with new tyres.", "In what state did the stolen cycle come back?"),
    ("The longest tunnel in Arden was dug by volunteers.", "Who excavated the passage underground?"),
    ("Nadia learned to fly before she could swim.", "Which skill did the pilot acquire first?"),
    ("The school bell is a cannon from an old ship.", "What calls the pupils to lessons?"),
    ("The inn at Grum charges guests by their shoe size.", "How is the price of a night determined?"),
    ("A single olive tree pays the monastery's taxes.", "How do the monks settle what they owe the state?"),
    ("The orchestra rehearses in a disused swimming pool.", "Where do the musicians practise?"),
    ("The glacier gave back a camera after fifty years.", "What emerged from the ice?"),
    (
        "Tomas sells maps of places that he has dreamed of.",
        "What does the merchant of imaginary lands offer?",
    ),
    ("The goat of the fire brigade has a medal for courage.", "Which animal was honoured for its bravery?"),
    ("The smallest bookshop in Varna opens only at full moon.", "When can one buy novels there?"),
    ("Irene's cactus bloomed on the day of the eclipse.", "Which plant flowered as the sun went dark?"),
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Documents, and what is to be found.

    name       passkey, needle, pairs or labels
    lengths    up to how many tokens each document has
    queries    one per document, which is to be found by it; () for labels
    labels     one per document; () for queries
    depths     where in its document the passage begins, from 0 to 1; () if it is not known
    passages   what is hidden in each document; () if that is not known
    """

    name: str
    lengths: tuple[int, ...]
    texts: tuple[str, ...]
    queries: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    depths: tuple[float, ...] = ()
    passages: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result:
    """Of one variant on one task.

    right    per document, whether it was found, or its label
    seconds  per document
    memory   most memory that was taken meanwhile, in MiB
    """

    variant: str
    task: Task
    right: NDArray[np.bool_]
    seconds: float
    memory: float


def passkey(tokenizer: Any, length: int, count: int) -> Task:
    """Which document has the passkey of this name? All repeat the same five sentences around it.

    Source: LongEmbed, arXiv 2404.12096, section 4.2.
    """
    chosen = random.Random(0)
    names = chosen.sample([f"{first} {last}" for first in FIRST for last in LAST], count)
    keys = chosen.sample(range(10_000, 99_999), count)
    passages = [
        f"The passkey for {name} is {key}. Remember it. {key} is the passkey for {name}."
        for name, key in zip(names, keys, strict=True)
    ]
    queries = [f"What is the passkey for {name}?" for name in names]
    return _planted("passkey", tokenizer, length, passages, queries, GROUND.split(), chosen)


def needle(tokenizer: Any, length: int, count: int) -> Task:
    """Which document has the fact that answers the question? All else in it is `news`. Source: `passkey`."""
    chosen = random.Random(0)
    passages, queries = zip(*chosen.sample(NEEDLES, count), strict=True)
    return _planted("needle", tokenizer, length, passages, queries, news().split(), chosen)


def news() -> str:
    """The news that gensim's package has, lee_background.cor: an article per line."""
    from gensim.test.utils import datapath

    with open(datapath("lee_background.cor"), encoding="utf-8") as file:
        return file.read()


GENERATED = {"passkey": passkey, "needle": needle}


def check_tasks(names: Sequence[str]) -> None:
    """`InputError` for a name that is not one of `GENERATED`."""
    if unknown := next((name for name in names if name not in GENERATED), None):
        raise InputError(
            f"there is no task {unknown}; take {' or '.join(GENERATED)}, or documents of your own."
        )


def _planted(
    name: str,
    tokenizer: Any,
    length: int,
    passages: Sequence[str],
    queries: Sequence[str],
    words: Sequence[str],
    chosen: random.Random,
) -> Task:
    """Each passage among other words, up to `length` tokens, at depths that are spread evenly."""
    depths = [(number + 0.5) / len(passages) for number in range(len(passages))]
    chosen.shuffle(depths)
    costs = _tokens(tokenizer, [f" {word}" for word in words])  # as in a text
    special = tokenizer.num_special_tokens_to_add()
    texts = []
    for passage, depth, size in zip(passages, depths, _tokens(tokenizer, passages), strict=True):
        room, start = length - special - size, chosen.randrange(len(words))
        if room < 0:
            raise InputError(
                f"a text of {length} tokens is too short for a {name}, which has {special + size}; give more."
            )
        filling: list[str] = []
        while room >= costs[start % len(words)]:
            filling.append(words[start % len(words)])
            room -= costs[start % len(words)]
            start += 1
        before = round(depth * len(filling))
        texts.append(" ".join([*filling[:before], passage, *filling[before:]]))
    return Task(
        name=name,
        lengths=(length,) * len(texts),
        texts=tuple(texts),
        queries=tuple(queries),
        depths=tuple(depths),
        passages=tuple(passages),
    )


def _tokens(tokenizer: Any, texts: Sequence[str]) -> list[int]:
    rows: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return [len(ids) for ids in rows]


def from_documents(
    tokenizer: Any,
    texts: Sequence[str],
    *,
    limit: int,
    queries: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> Task:
    """The user's own documents: which belongs to a query, or which label has it?

    Lengths are counted up to `limit`, twice `limit`, four times ...
    """
    special = tokenizer.num_special_tokens_to_add()
    lengths = []
    for count in _tokens(tokenizer, texts):
        over = max(math.ceil((count + special) / limit), 1)
        lengths.append(limit * 2 ** math.ceil(math.log2(over)))
    name = "pairs" if queries else "labels"
    if len(texts) < 2:
        raise InputError(f"a file of {name} has {len(texts)} row; give two or more, to choose between.")
    return Task(
        name=name, lengths=tuple(lengths), texts=tuple(texts), queries=tuple(queries), labels=tuple(labels)
    )
