"""The language suite: models of the next token and of masked tokens, trained on 64 tokens and read at up to
32 times as many.

Every method has the better of two learning rates, by the loss of seed 0 on validation text, so that
none is behind for a rate that suits another.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Generator, Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from vnait.model import VnaitForCausalLM, VnaitForMaskedLM
from vnait.positions.building import TIED_START
from vnait.results.record import Record
from vnait.shared.errors import InputError, OutOfRange
from vnait.shared.statistics import Interval
from vnait.train.tasks.tags import IGNORED
from vnait_lab.records import by_method, points, values_of, where
from vnait_lab.rules import clear
from vnait_lab.study import Verdict
from vnait_lab.suites.suite import SEEDS, Suite, Training, new_model
from vnait_lab.suites.together import adamw, minimize

TRAINED = 64
LENGTHS = tuple(TRAINED * 2**power for power in range(6))
MASKED = 0.15  # the share of the tokens, as in BERT
UNKNOWN, MASK = 1, 2  # ids; 0 is padding
SUBWORDS = SYMBOLS = 1_000  # the most in a vocabulary; with more, the head takes most of the time
AT_ONCE = 8_192  # tokens in a test
CHOOSING_SEED = 0  # the seed that chooses the learning rate of all

Model = VnaitForCausalLM | VnaitForMaskedLM


@dataclass(frozen=True, kw_only=True)
class Setting(Training):
    """One setting for every method.

    faster    the second learning rate is so many times the first
    windows   of the longest length, of the test text; fewer where it is shorter
    """

    steps: int = 600
    batch: int = 32
    learning_rate: float = 1e-3
    faster: float = 3.0
    warmup: int = 100
    hidden_size: int = 96
    num_hidden_layers: int = 2
    windows: int = 16


QUICK = Setting(steps=100, windows=2)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Token ids of three parts of a text, and what a model of it learns."""

    masked: bool
    unit: str
    words: int
    train: Int[Tensor, " N"] = field(repr=False)
    validation: Int[Tensor, " N"] = field(repr=False)
    test: Int[Tensor, " N"] = field(repr=False)

    @property
    def asks(self) -> str:
        """What is asked, part of the keys of runs: with the text, as far as a sum can say."""
        parts = self.train, self.validation, self.test
        sums = [int((part * torch.arange(1, len(part) + 1)).sum()) for part in parts]
        question = (
            f"which token is masked, s from {TIED_START}, gates at rest" if self.masked else "what comes next"
        )
        return f"{question}? {self.unit} {sums}"


def tasks_of(name: str, texts: Sequence[str], unit: str) -> dict[str, Corpus]:
    """`next-NAME` and `masked-NAME`. The vocabulary is learned from the training text alone.

    texts   for training, validation and the test
    unit    subwords (byte-level BPE), or symbols: letters or characters
    """
    if unit == "subwords":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=SUBWORDS, initial_alphabet=alphabet, special_tokens=["padding", "unknown", "mask"]
        )
        tokenizer.train_from_iterator(texts[0].splitlines(keepends=True), trainer)
        # Line by line: one long text takes minutes.
        coded = [tokenizer.encode_batch(text.splitlines(keepends=True)) for text in texts]
        parts = [torch.tensor([number for line in lines for number in line.ids]) for lines in coded]
        words = tokenizer.get_vocab_size()
    else:
        symbols = [symbol for symbol, _ in Counter(texts[0]).most_common(SYMBOLS)]
        number = {symbol: index for index, symbol in enumerate(symbols, start=MASK + 1)}
        parts = [torch.tensor([number.get(symbol, UNKNOWN) for symbol in text]) for text in texts]
        words = len(number) + MASK + 1
    names, needed = ("train", "validation", "test"), (TRAINED + 1, TRAINED, LENGTHS[-1])
    for what, part, least in zip(names, parts, needed, strict=True):
        if len(part) < least:
            raise InputError(
                f"the {what} part of {name} has {len(part):,} {unit}, and {least:,} are needed; give a "
                f"longer text, of {10 * LENGTHS[-1]:,} {unit} at least."
            )
    train_ids, validation_ids, test_ids = parts
    return {
        f"{kind}-{name}": Corpus(
            masked=kind == "masked",
            unit=unit,
            words=words,
            train=train_ids,
            validation=validation_ids,
            test=test_ids,
        )
        for kind in ("next", "masked")
    }


def tasks_of_file(path: Path) -> dict[str, Corpus]:
    """The tasks of a reader's text file: the last tenth is for the test, the tenth before for validation.

    Texts with spaces are split into subwords, others into characters.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read as UTF-8 text ({error}); give a text file.") from error
    unit = "subwords" if text.count(" ") > len(text) / 50 else "characters"
    return tasks_of(path.stem, tenths(text), unit)


def tasks_of_data(folder: Path) -> dict[str, Corpus]:
    """The tasks of three texts in a folder of data sets: English in subwords and letters, Chinese reviews in
    characters.
    """
    names = ("train", "valid", "test")
    english, plays = (
        [(folder / text / f"{name}.txt").read_text(encoding="utf-8") for name in names]
        for text in ("wikitext2", "tinyshakespeare")
    )
    reviews = pd.read_csv(folder / "eprstmt" / "unlabeled.csv")["text"]
    return {
        **tasks_of("wikitext2", english, "subwords"),
        **tasks_of("tinyshakespeare", plays, "letters"),
        **tasks_of("eprstmt", tenths("\n".join(reviews)), "characters"),
    }


def tenths(text: str) -> tuple[str, str, str]:
    """Eight tenths, one and one."""
    tenth = len(text) // 10
    return text[: -2 * tenth], text[-2 * tenth : -tenth], text[-tenth:]


def fit(method: str, text: Corpus, seeds: Sequence[int], setting: Setting) -> list[Model]:
    """One model per seed, at the learning rate that seed 0 chooses of two; trained one after the other: at
    this size, training them at once saves no time.
    """
    rates = setting.learning_rate, setting.learning_rate * setting.faster
    tried: list[Any] = [fit_at(method, text, CHOOSING_SEED, setting, rate) for rate in rates]
    best = min(
        tried, key=lambda model: loss_at(model, text, text.validation, TRAINED, setting, CHOOSING_SEED)[0]
    )
    return [
        best if seed == CHOOSING_SEED else fit_at(method, text, seed, setting, best.learning_rate)
        for seed in seeds
    ]


def fit_at(
    method: str,
    text: Corpus,
    seed: int,
    setting: Setting,
    rate: float,
    prepare: Callable[[Any], object] | None = None,
) -> Model:
    """A model trained at one rate. All methods read the same windows, with the same tokens masked.

    prepare   changes the untrained model
    """
    kind: type[Model] = VnaitForMaskedLM if text.masked else VnaitForCausalLM
    model: Any = new_model(
        kind, setting, seed, method=method, vocab_size=text.words, max_length=LENGTHS[-1], mean_length=TRAINED
    )
    if prepare is not None:
        prepare(model)
    started = time.perf_counter()
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        start = torch.randint(len(text.train) - TRAINED, (setting.batch, 1), generator=random)
        ids, labels = question(text, text.train[start + torch.arange(TRAINED)], random)
        return model(ids, labels=labels).loss

    settings = asdict(setting) | {"learning_rate": rate}
    names = ("steps", "learning_rate", "weight_decay", "warmup")
    optimizer, schedule = adamw(model.parameters(), **{name: settings[name] for name in names})
    minimize(loss, optimizer, schedule, steps=setting.steps, clip=1.0)
    model.learning_rate, model.seconds = rate, time.perf_counter() - started
    return model.eval()


def question(
    text: Corpus, ids: Int[Tensor, "B T"], random: Generator
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """What a model reads, and the labels; for masked tokens, `IGNORED` elsewhere."""
    if not text.masked:
        return ids, ids
    hidden = torch.rand(ids.shape, generator=random) < MASKED
    return ids.masked_fill(hidden, MASK), ids.masked_fill(~hidden, IGNORED)


@torch.no_grad()
def loss_at(
    model: Model, text: Corpus, ids: Int[Tensor, " N"], length: int, setting: Setting, seed: int
) -> tuple[float, float]:
    """The mean loss in windows of a length, and in the last quarter of each. Windows of all lengths cover the
    same tokens, and the same ones are masked.
    """
    windows = min(setting.windows, len(ids) // LENGTHS[-1])
    ids = ids[: windows * LENGTHS[-1]] if windows else ids[: len(ids) // length * length]
    shown, labels = question(text, ids[None], Generator().manual_seed(seed))
    shown, labels = shown.reshape(-1, length), labels.reshape(-1, length)
    rows = max(1, AT_ONCE // length)
    batches = zip(shown.split(rows), labels.split(rows), strict=True)
    losses = torch.cat([_losses(model, *batch) for batch in batches])
    counted = labels != IGNORED
    if not text.masked:
        counted[:, 0] = False  # it has no context
    last = counted.clone()
    last[:, : length * 3 // 4] = False
    return float(losses[counted].mean()), float(losses[last].mean())


def _losses(model: Model, ids: Int[Tensor, "B T"], labels: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """The loss of every token; 0 where it is not asked."""
    logits = model(ids).logits
    if isinstance(model, VnaitForCausalLM):
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none", ignore_index=IGNORED)
    return F.pad(losses.reshape(labels.shape), (ids.shape[1] - labels.shape[1], 0))


def scores(model: Any, text: Corpus, setting: Setting, random: Generator) -> dict[str, float]:
    """The losses at lengths that the method can read, the learning rate, and what a training costs."""
    seed = random.initial_seed()
    metrics: dict[str, float] = {}
    for length in LENGTHS:
        with suppress(OutOfRange):  # a table has an end
            mean, last = loss_at(model, text, text.test, length, setting, seed)
            metrics |= {f"loss_{length}": mean, f"last_{length}": last}
    return metrics | {
        "learning_rate": model.learning_rate,
        "seconds": model.seconds,
        "tokens": float(setting.steps * setting.batch * TRAINED),
        "flops": setting.steps * setting.batch * flops(model, text),
    }


def flops(model: Any, text: Corpus) -> float:
    """Of a training step on one window: products of matrices alone, forward and back."""
    ids, labels = question(text, text.train[None, :TRAINED], Generator().manual_seed(0))
    with FlopCounterMode(display=False) as counter:
        model(ids, labels=labels).loss.backward()
    model.zero_grad()
    return float(counter.get_total_flops())


def suite_of(tasks: Mapping[str, Corpus]) -> Suite:
    """The suite on these texts."""
    return Suite(
        name="language",
        tasks=dict(tasks),
        setting=Setting(),
        fit=fit,
        scores=scores,
        facts=lambda text: {
            "masked": text.masked,
            "unit": text.unit,
            "words": text.words,
            "trained": TRAINED,
            "tokens": len(text.train),
        },
    )


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Means over seeds, one row per text and method."""
    rows = []
    for text, method in itertools.product(values_of(records, "name"), values_of(records, "method")):
        if runs := where(records, name=text, method=method):
            means = {name: fmean(run.metrics[name] for run in runs) for name in runs[0].metrics}
            rows.append({"task": text, "method": method, "seeds": len(runs), **means})
    return rows


def loss_of(record: Record, length: int) -> float:
    """Infinite at a length that the method can't read."""
    return record.metrics.get(f"loss_{length}", math.inf)


def verdict(records: Sequence[Record], method: str, *, masked: bool) -> Verdict:
    """The claim: `method` has the lowest loss at every length, on every text. Refuted where a rival is
    clearly ahead; undecided where an interval contains zero, with fewer than 3 seeds, or while a rival has
    not run on every text.
    """
    records = where(records, masked=masked)
    rivals = [name for name in values_of(records, "method") if name != method]
    if not rivals or method not in values_of(records, "method"):
        return Verdict("undecided", f"{method} was compared with nothing")
    leads: list[Interval] = []
    words, seeds = [], []
    for text in values_of(records, "name"):
        for length in LENGTHS:
            losses = by_method(records, partial(loss_of, length=length), [method, *rivals], name=text)
            seeds += [len(by) for by in losses.values()]
            ran = [name for name in rivals if losses[name]]
            over = {name: points(losses[name], losses[method]).times(0.01) for name in ran}
            leads += over.values()
            if length in (TRAINED, LENGTHS[-1]):
                best = min(ran, key=lambda name: fmean(losses[name].values()))
                words.append(f"{text} at {length:,} tokens: {over[best].written('{:+.3f}')} to {best}")
    few = f"; fewer than {SEEDS} seeds of a decoder" * (min(seeds) < SEEDS)
    standing = clear(leads, "; ".join(words) + few)
    return Verdict("undecided", standing.summary) if few and standing.word == "confirmed" else standing
