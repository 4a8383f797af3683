"""Documents with repeated headers and quoted replies: is what counts found among what doesn't?

    VNAIT_DATA=DIR python -m vnait_lab.runs.replies [--methods rope,vnait] [--seeds 5]

DIR has the folder ag_news. A document is an article in lines of ten words. Headers are a line that is
repeated at even distances; quotes are lines of other articles, in one block, each after a ">". The question
is in which third of the article's own words a mark stands, so neither counts. Headers are words of their own;
that a word is quoted is seen only at the start of its line.

Models learn from articles as they are, with headers, or with quotes, of up to half of the article's length,
and are tested on the same kinds and on up to three times its length. The task `filtered` is the control,
`vnait-uniform`, where everything inserted was removed by hand. Records go to studies/records/replies;
recorded runs are not repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import Random

import torch
from jaxtyping import Int
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from vnait.data import read
from vnait.model import VnaitForSequenceClassification
from vnait.results.record import Record
from vnait_lab.records import by_seed, path_of, where
from vnait_lab.runs import data_folder, parser, run_suite
from vnait_lab.runs.insertions import CONTROL, FILTERED, scores_of, spared
from vnait_lab.runs.retokenization import MARK, PADDING, SET, UNKNOWN, Setting, Words, learned, third
from vnait_lab.study import Verdict
from vnait_lab.suites.suite import Suite

METHODS_RUN = ("none", "sinusoidal", "rope", "alibi", "vnait-uniform", "vnait", "vnait-context")
TASK = "replies"
END, QUOTE = "[END]", ">"
HEADER = ("from", ":", "the", "daily", "news", END)
VOCABULARY, LONGEST, LINE = 8_000, 60, 10  # words in all, of an article, of a line
SEEN, MORE = 0.5, 3.0  # the most that is inserted, as a multiple of the article's length
TESTS = {  # what is inserted, and how much
    "clean": ("", 0.0),
    "headers_seen": ("headers", SEEN),
    "headers_more": ("headers", MORE),
    "quotes_seen": ("quotes", SEEN),
    "quotes_more": ("quotes", MORE),
}
ROWS = 50  # texts at a time in a test


def lines(words: Words) -> list[Words]:
    """Ten words each, then the end of the line."""
    return [[*words[start : start + LINE], END] for start in range(0, len(words), LINE)]


def headers(article: list[Words], room: int, others: Sequence[Words], random: Random) -> list[Words]:
    """A document with as many headers as there is room for, at even distances."""
    count = round(room / len(HEADER))
    after = Counter(number * len(article) // count for number in range(count))
    parts = ([*[list(HEADER)] * after[place], line] for place, line in enumerate(article))
    return [line for part in parts for line in part]


def quotes(article: list[Words], room: int, others: Sequence[Words], random: Random) -> list[Words]:
    """A document with a block of lines of other articles before any of its lines, or at its end."""
    block: list[Words] = []
    while sum(map(len, block)) < room:
        block += [[QUOTE, *line] for line in lines(random.choice(others))]
    while block and sum(map(len, block)) > room:
        block.pop()
    place = random.randrange(len(article) + 1)
    return [*article[:place], *block, *article[place:]]


KINDS: dict[str, Callable[..., list[Words]]] = {"headers": headers, "quotes": quotes}


def document(
    words: Words, kind: str, most: float, others: Sequence[Words], random: Random
) -> tuple[Words, int]:
    """An article with a mark and insertions, as tokens, and the third in which the mark stands."""
    marked, answer = third(words, random)
    written = lines(marked)
    if kind in KINDS:
        written = KINDS[kind](written, int(random.uniform(0, most) * len(marked)), others, random)
    return list(chain.from_iterable(written)), answer


@dataclass(frozen=True)
class Articles:
    """Train and test articles; `kinds` are those that models learn from."""

    asks: str
    kinds: Sequence[str]
    train: Sequence[Words] = field(repr=False)
    test: Sequence[Words] = field(repr=False)
    ids: Mapping[str, int] = field(repr=False)

    def batch(self, documents: Iterable[tuple[Words, int]]) -> tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]:
        """Ids and answers."""
        texts, answers = zip(*documents, strict=True)
        unknown = self.ids[UNKNOWN]
        rows = [torch.tensor([self.ids.get(word, unknown) for word in text]) for text in texts]
        return pad_sequence(rows, batch_first=True), torch.tensor(answers)


def fit(
    method: str, about: Articles, seeds: Sequence[int], setting: Setting
) -> list[VnaitForSequenceClassification]:
    """One model per seed; two methods read the same documents."""

    def draw(random: Random) -> tuple[Tensor, Tensor]:
        articles = random.sample(about.train, setting.batch)
        return about.batch(
            document(words, random.choice(about.kinds), SEEN, about.train, random) for words in articles
        )

    sizes = {"vocab_size": len(about.ids), "max_length": 512, "mean_length": LONGEST, "num_labels": 3}
    return [learned(method, seed, setting, draw, **sizes) for seed in seeds]


@torch.no_grad()
def scores(
    model: VnaitForSequenceClassification, about: Articles, setting: Setting, random: Generator
) -> dict[str, float]:
    """The accuracy on test articles, by test; a model that is filtered for reads clean ones."""
    seed, shares = random.initial_seed(), {}
    texts = about.test[: setting.tests]
    for name, (kind, most) in TESTS.items():
        same, right = Random(seed), 0
        made = [
            document(words, kind if kind in about.kinds else "", most, about.test, same) for words in texts
        ]
        for start in range(0, len(made), ROWS):
            ids, answers = about.batch(made[start : start + ROWS])
            right += int((model(ids).logits.argmax(-1) == answers).sum())
        shares[f"accuracy_{name}"] = right / len(made)
    return shares


def lost(records: Sequence[Record], method: str, test: str) -> dict[int, float]:
    """Seed -> the accuracy on clean articles minus that on a test."""
    clean, left = (by_seed(records, f"accuracy_{kind}", method=method, name=TASK) for kind in ("clean", test))
    return {seed: clean[seed] - score for seed, score in left.items()}


def verdict(records: Sequence[Record], test: str) -> Verdict:
    """The claim: `vnait` loses at most a third of what the method loses that is best there among those whose
    coordinates do not read the words.
    """
    runs = where(records, name=TASK)
    return spared(scores_of(runs, test), scores_of(runs, "clean"), "vnait", 1 / 3)


def main() -> None:
    command = parser(__doc__, seeds=3, methods=METHODS_RUN)
    options = command.parse_args()
    folder = data_folder(command, f"the folder {SET}") / SET
    train, test = (
        [text.lower().split()[:LONGEST] for text in read(folder / f"{part}.csv").texts]
        for part in ("train", "test")
    )
    common = Counter(chain.from_iterable(train)).most_common(VOCABULARY)
    known = [PADDING, UNKNOWN, MARK, QUOTE, *HEADER, *(word for word, _ in common)]
    ids = {word: number for number, word in enumerate(dict.fromkeys(known))}
    suite = Suite(
        name="replies",
        tasks={
            TASK: Articles("in which third of the own words does M stand?", ("", *KINDS), train, test, ids),
            FILTERED: Articles("the same, of what is left after filtering", ("",), train, test, ids),
        },
        setting=Setting(),
        fit=fit,
        scores=scores,
        facts=lambda about: {"set": SET, "tests": TESTS},
    )
    for methods, task in ((options.methods, TASK), ([CONTROL], FILTERED)):
        run_suite(suite, options, methods=methods, tasks=[task], path=path_of("replies"))


if __name__ == "__main__":
    main()
