"""Another tokenizer: a model that learned from whole words reads the same texts in smaller pieces.

    VNAIT_DATA=DIR python -m vnait_lab.runs.retokenization [--methods rope,vnait] [--seeds 5]

DIR has the folder ag_news. Pieces are those of a byte pair encoding, learned from train.csv: after all of its
merges, which leave most words whole (words), after the first 500 (pieces), and after none (letters). The
first has all the ids of the others, so one model reads all three. It is trained on words.

Pieces are counted, as in training, or their positions are known: the last piece of word i stands at
i, the others at even steps since the word before. Two questions, which words alone do not answer: in which
third of the words a mark stands (third), and whether the halves of a text have changed places (moved).
Records go to studies/records/retokenization; recorded runs are not repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random

import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from vnait.data import read
from vnait.model import VnaitForSequenceClassification
from vnait.results.record import Record
from vnait.shared.statistics import interval
from vnait_lab.records import by_seed, path_of
from vnait_lab.rules import at_most
from vnait_lab.runs import ahead, data_folder, parser, run_suite
from vnait_lab.studies.parts.training import descend
from vnait_lab.study import Verdict
from vnait_lab.suites.suite import Suite, Training, new_model

SET = "ag_news"
METHODS_RUN = ("none", "sinusoidal", "rope", "alibi", "vnait-uniform", "vnait")
INDEXED = ("sinusoidal", "rope", "alibi")
PADDING, UNKNOWN, MARK = "[PAD]", "[UNK]", "[M]"
VOCABULARY, LONGEST = 8_000, 60  # pieces of words; words of a text
SEGMENTS = {"words": None, "pieces": 500, "letters": 0}  # how many merges; None: all
KNOWN = ("counted", "known")  # places
MOST = 2.0  # points that known places may cost
ROWS = 50  # texts at a time in a test

Words = list[str]
Pieces = list[list[int]]  # the ids of each word


@dataclass(frozen=True, kw_only=True)
class Setting(Training):
    """One setting for every method."""

    steps: int = 1000
    learning_rate: float = 2e-3
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    tests: int = 1000


@dataclass(frozen=True)
class Question:
    """`ask` turns the words of a text into a text and its class."""

    asks: str
    ask: Callable[[Words, Random], tuple[Words, int]]
    answers: int
    train: Sequence[Words] = field(repr=False)
    test: Sequence[Words] = field(repr=False)
    tokenizers: dict[str, Tokenizer] = field(repr=False)


def third(words: Words, random: Random) -> tuple[Words, int]:
    """The words with a mark between two of them, and the third in which it stands."""
    at = random.randrange(len(words) + 1)
    return [*words[:at], MARK, *words[at:]], 3 * at // (len(words) + 1)


def moved(words: Words, random: Random) -> tuple[Words, int]:
    """The words, or in half of the cases the second half before the first one."""
    middle, change = len(words) // 2, random.randrange(2)
    return (words[middle:] + words[:middle] if change else words), change


ASKS = {
    "third": ("in which third of the words does M stand?", third, 3),
    "moved": ("have the halves changed places?", moved, 2),
}


def byte_pairs(texts: Iterable[str]) -> Tokenizer:
    """A byte pair encoding of lower-case words."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [PADDING, UNKNOWN, MARK]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def after(tokenizer: Tokenizer, merges: int | None) -> Tokenizer:
    """The same ids after the first merges alone."""
    state = json.loads(tokenizer.to_str())
    state["model"]["merges"] = state["model"]["merges"][:merges]
    return Tokenizer.from_str(json.dumps(state))


def words_of(texts: Iterable[str], tokenizer: Tokenizer) -> list[Words]:
    """The first words of each text."""
    normalize, cut = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str
    return [[word for word, _ in cut(normalize(text))][:LONGEST] for text in texts]


def in_pieces(words: Words, tokenizer: Tokenizer) -> Pieces:
    """The ids of each word's pieces."""
    return [tokenizer.encode(word).ids for word in words]  # the mark is a special token


def placed(pieces: Pieces) -> list[float]:
    """Where each piece stands, in words: the last one of word i at i.

    >>> placed([[5], [6, 7], [8]])
    [0.0, 0.5, 1.0, 2.0]
    """
    return [
        word - 1 + number / len(ids) for word, ids in enumerate(pieces) for number in range(1, len(ids) + 1)
    ]


def batch(
    texts: Sequence[Words], question: Question, segments: str, random: Random
) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B T 1"], Int[Tensor, " B"]]:
    """Ids, places and classes."""
    asked = [question.ask(words, random) for words in texts]
    pieces = [in_pieces(words, question.tokenizers[segments]) for words, _ in asked]
    ids = pad_sequence([torch.tensor(list(chain.from_iterable(words))) for words in pieces], batch_first=True)
    places = pad_sequence([torch.tensor(placed(words)) for words in pieces], batch_first=True)
    return ids, places[..., None], torch.tensor([answer for _, answer in asked])


def fit(
    method: str, question: Question, seeds: Sequence[int], setting: Setting
) -> list[VnaitForSequenceClassification]:
    """One model per seed, trained on words, which are counted; two methods read the same texts."""

    def draw(random: Random) -> tuple[Tensor, Tensor]:
        texts = random.sample(question.train, setting.batch)
        ids, _, classes = batch(texts, question, "words", random)
        return ids, classes

    sizes = {"vocab_size": VOCABULARY, "max_length": 1024, "mean_length": LONGEST}
    return [learned(method, seed, setting, draw, num_labels=question.answers, **sizes) for seed in seeds]


def learned(
    method: str,
    seed: int,
    setting: Setting,
    draw: Callable[[Random], tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]],
    **sizes: int,
) -> VnaitForSequenceClassification:
    """A model that has learned from drawn texts and their classes."""
    model = new_model(VnaitForSequenceClassification, setting, seed, method=method, **sizes)
    random = Random(seed)
    torch.manual_seed(seed)

    def loss(step: int) -> Tensor:
        ids, classes = draw(random)
        return model(ids, labels=classes).loss

    descend(
        model.parameters(),
        loss,
        steps=setting.steps,
        learning_rate=setting.learning_rate,
        weight_decay=setting.weight_decay,
    )
    return model.eval()


@torch.no_grad()
def scores(
    model: VnaitForSequenceClassification, question: Question, setting: Setting, random: Generator
) -> dict[str, float]:
    """The accuracy on the test texts, by kind of pieces, counted and with known places."""
    seed = random.initial_seed()
    shares: dict[str, float] = {}
    texts = question.test[: setting.tests]
    for segments in SEGMENTS:
        right, same = dict.fromkeys(KNOWN, 0), Random(seed)
        for start in range(0, len(texts), ROWS):
            ids, places, classes = batch(texts[start : start + ROWS], question, segments, same)
            for known, at in zip(KNOWN, (None, places), strict=True):
                right[known] += int((model(ids, positions=at).logits.argmax(-1) == classes).sum())
        shares |= {f"accuracy_{segments}_{known}": count / len(texts) for known, count in right.items()}
    return shares


def lost(records: Sequence[Record], method: str, segments: str, known: str) -> dict[int, float]:
    """Seed -> the accuracy on words that are counted, minus that on these pieces."""
    whole, left = (
        by_seed(records, f"accuracy_{test}", method=method)
        for test in ("words_counted", f"{segments}_{known}")
    )
    return {seed: score - left[seed] for seed, score in whole.items()}


def least(records: Sequence[Record]) -> Verdict:
    """The claim: read in letters that are counted, `vnait` loses less than `INDEXED`."""
    losses = {method: lost(records, method, "letters", "counted") for method in ("vnait", *INDEXED)}
    left = {method: {seed: -loss for seed, loss in of.items()} for method, of in losses.items()}
    lead = ahead(left, "vnait")
    ours = interval(list(losses["vnait"].values())).times(100).written("{:.1f}")
    return Verdict(lead.word, f"`vnait` loses {ours} points; what is kept, {lead.summary}")


def kept(records: Sequence[Record]) -> Verdict:
    """The claim: with known places every method loses two points at most in letters, interval included."""
    losses = {
        method: interval(list(lost(records, method, "letters", "known").values())).times(100)
        for method in METHODS_RUN
        if method != "none"
    }
    words = ", ".join(f"{method} {loss.written('{:+.1f}')}" for method, loss in losses.items())
    return at_most(losses.values(), MOST, words)


def questions(folder: Path) -> dict[str, Question]:
    """Both questions about one set of texts."""
    train, test = (read(folder / f"{part}.csv").texts for part in ("train", "test"))
    every = byte_pairs(train)
    tokenizers = {name: after(every, merges) for name, merges in SEGMENTS.items()}
    texts = words_of(train, every), words_of(test, every)
    return {name: Question(*asks, *texts, tokenizers) for name, asks in ASKS.items()}


def main() -> None:
    command = parser(__doc__, seeds=3, methods=METHODS_RUN)
    options = command.parse_args()
    asked = questions(data_folder(command, f"the folder {SET}") / SET)
    suite = Suite(
        name="retokenization",
        tasks=asked,
        setting=Setting(),
        fit=fit,
        scores=scores,
        facts=lambda question: {"set": SET, "merges": SEGMENTS},
    )
    run_suite(suite, options, methods=options.methods, tasks=asked, path=path_of("retokenization"))


if __name__ == "__main__":
    main()
