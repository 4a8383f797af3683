"""Structure from texts without labels: is a method with few labels better if it has first learned from them?

    VNAIT_DATA=DIR python -m vnait_lab.runs.self_supervision [--sets trec,splice] [--seeds 3]

Before its training with 16 labels per class a model reads all texts of train.csv without their labels, for
2,000 steps, with one of two questions: which words are masked (BERT's, arXiv 1810.04805), or which words have
moved, in three of four texts of which two spans have changed places. Then it keeps its positional method and
its layers. All models have the Word2Vec vectors of these texts, no linear part is mixed in, and test.csv is
only scored. Records go to studies/records/self_supervision; recorded runs are not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from transformers import get_linear_schedule_with_warmup

from vnait.data import batches, collate
from vnait.data.tasks import CLASSIFICATION, TAGGING
from vnait.data.vocabulary import Vocabulary
from vnait.model import VnaitForMaskedLM, seed_weights
from vnait.positions.building import TIED_START
from vnait.positions.methods import arithmetic
from vnait.results.record import Record
from vnait.shared.keys import key_of
from vnait.shared.statistics import interval, paired
from vnait.train.fitting import fit
from vnait.train.models import from_vectors, new_model
from vnait.train.run import Run
from vnait.train.tasks.tags import IGNORED
from vnait_lab.records import by_seed, path_of
from vnait_lab.rules import decided
from vnait_lab.runs import data_folder, parser, recorded, run_each
from vnait_lab.study import Verdict
from vnait_lab.suites.few_labels import plan_of, score_of
from vnait_lab.suites.together import minimize

METHODS_RUN = ("sinusoidal", "vnait")
QUESTIONS = ("nothing", "masked words", "moved words")
SHOTS, STEPS = 16, 2_000
HIDDEN = 0.15  # the share of words that are asked, of which 8 in 10 are masked and 1 is another word
MOVED = 0.75  # the share of texts in which two spans change places
ENOUGH = 1.0  # points that are worth the steps
RUN = Run(validation=0, bag=0.0, max_length=128)

Asked = tuple[Tensor, Tensor]  # ids (B, T) and what is asked of each, -100 at all others


@dataclass(frozen=True, eq=False)
class Pretrained(Vocabulary):
    """A vocabulary whose new models begin with these weights of the encoder; None: untrained."""

    weights: dict[str, Tensor] | None = None

    def new_model(
        self, run: Run, classes: Sequence[str], lengths: Sequence[int], task: str = CLASSIFICATION
    ) -> Any:
        model = from_vectors(self, run, classes, lengths, task)
        if self.weights is not None:
            model.model.load_state_dict(self.weights)
        return model


def masked_words(ids: Tensor, words: Vocabulary, random: Generator) -> Asked:
    """BERT's question: which word is hidden. Unknown words are not asked."""
    draw = torch.rand(ids.shape, generator=random)
    known = (ids != words.tokenizer.pad_token_id) & (ids != words.tokenizer.unk_token_id)
    asked = known & (draw < HIDDEN)
    frequency = torch.tensor(words.frequency)
    drawn = torch.multinomial(frequency, ids.numel(), replacement=True, generator=random)
    shown = ids.where(~(asked & (draw < 0.8 * HIDDEN)), words.tokenizer.mask_token_id)
    shown = shown.where(~(asked & (draw >= 0.9 * HIDDEN)), drawn.view_as(ids))
    return shown, ids.where(asked, IGNORED)


def moved_words(ids: Tensor, words: Vocabulary, random: Generator) -> Asked:
    """Which words stand in another place: in a share `MOVED` of the texts two spans side by side have changed
    places.
    """
    shown, real = ids.clone(), ids != words.tokenizer.pad_token_id
    for row, count in enumerate(real.sum(1).tolist()):
        if count > 1 and float(torch.rand(1, generator=random)) < MOVED:
            first, middle, last = (torch.randperm(count + 1, generator=random)[:3]).sort().values.tolist()
            shown[row, first:last] = torch.cat([ids[row, middle:last], ids[row, first:middle]])
    return shown, (shown != ids).long().where(real, IGNORED)


def pretrained(words: Vocabulary, texts: Sequence[str], run: Run, question: str) -> Pretrained:
    """The vocabulary with the weights of an encoder that has learned from texts without labels."""
    vocabulary = {field.name: getattr(words, field.name) for field in fields(words)}
    if question == "nothing":
        return Pretrained(**vocabulary)
    ids = words.encode(texts, max_length=run.max_length)
    lengths = list(map(len, ids))
    torch.manual_seed(run.seed)
    model: Any = new_model(words, run, ["stayed", "moved"], lengths, TAGGING)
    ask: Callable[[Tensor, Vocabulary, Generator], Asked] = moved_words
    if question == "masked words":
        table, ask = model.get_input_embeddings().weight, masked_words
        model = VnaitForMaskedLM(model.config)
        seed_weights(model, run.seed)
        model.get_input_embeddings().weight.data.copy_(table)
    learned = [weight for weight in model.train().parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=run.rate, weight_decay=run.weight_decay, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, int(run.warmup * STEPS), STEPS)
    random = Generator().manual_seed(run.seed)
    epoch = -(-len(ids) // run.batch_size)  # in steps

    @lru_cache(maxsize=1)
    def rows(number: int) -> list[list[int]]:
        return batches(lengths, batch_size=run.batch_size, seed=run.seed, epoch=number)

    def loss(step: int) -> Tensor | None:
        batch_ids = [ids[row] for row in rows(step // epoch)[step % epoch]]
        batch = collate(batch_ids, pad_id=words.tokenizer.pad_token_id)
        shown, asked = ask(batch["input_ids"], words, random)
        if (asked == IGNORED).all():
            return None
        return model(shown, batch["attention_mask"], labels=asked).loss

    minimize(loss, optimizer, schedule, steps=STEPS, clip=1.0)
    return Pretrained(**vocabulary, weights=model.model.state_dict())


def train_and_test(data: Path, name: str, seed: int, method: str, question: str) -> Record:
    """Train one method on one draw of rows, after one question on all texts without labels."""
    plan = plan_of(name, data, [method], [SHOTS], [seed], RUN)
    table, test = plan.rows(SHOTS, seed)
    run = replace(RUN, method=method, seed=seed)
    words = pretrained(plan.vocabulary(seed), plan.table.texts, run, question)
    return recorded(fit(run, table, words, test=test), question=question, shots=SHOTS)


def gains(records: Sequence[Record], name: str, method: str, question: str) -> list[float]:
    """By draw of rows, the score after a question minus the score without one."""
    after, without = (
        by_seed(records, score_of, method=method, name=name, question=asked)
        for asked in (question, "nothing")
    )
    return paired(after, without)


def verdict(records: Sequence[Record], name: str) -> Verdict:
    """The claim: on a set one of the two questions makes `vnait` better by a point or more."""
    every = {question: gains(records, name, "vnait", question) for question in QUESTIONS[1:]}
    if min(map(len, every.values())) < 3:
        return Verdict("undecided", f"{name}: fewer than three draws of rows")
    means = {question: interval(values).times(100) for question, values in every.items()}
    words = "; ".join(f"after {question} {mean.written('{:+.1f}')}" for question, mean in means.items())
    bounds = [mean.bounds for mean in means.values()]
    small = all(high < ENOUGH for _, high in bounds)
    return decided(any(low >= ENOUGH for low, _ in bounds), words, refuted=small)


def key(name: str, seed: int, method: str, question: str) -> str:
    """The fingerprint of everything that decides a run, but the set's files."""
    formula = arithmetic(method)
    fixed: tuple[object, ...] = (RUN.facts, SHOTS, STEPS, HIDDEN, MOVED)
    if question == "masked words":
        fixed = (*fixed, TIED_START)
    return key_of("self_supervision", name, method, formula, question, seed, *fixed)


def main() -> None:
    command = parser(__doc__, seeds=3, sets=("trec", "splice"), methods=METHODS_RUN)
    options = command.parse_args()
    run = partial(train_and_test, data_folder(command))
    runs = product(options.sets, range(options.seeds), options.methods, QUESTIONS)
    run_each(path_of("self_supervision"), run, runs, key, options.jobs)


if __name__ == "__main__":
    main()
