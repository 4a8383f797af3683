"""Perplexity by position of language models trained on 128 tokens and read to 1,024.

    VNAIT_DATA=DIR python -m vnait_lab.runs.decoder [--texts wikitext2] [--methods vnait-causal,rope]

DIR has one folder per text, with train.txt and test.txt: letters of tinyshakespeare, and the 2,000 most
frequent words of wikitext2. Each perplexity is recorded with that of the same tokens in fresh windows of 128,
since later tokens of a text are not as hard as earlier ones. Records go to studies/records/decoder; recorded
runs are not repeated.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Generator, Tensor

from vnait import VnaitForCausalLM
from vnait_lab.records import path_of
from vnait_lab.runs import data_folder, parser, run_suite
from vnait_lab.suites.suite import Suite, Training, new_model
from vnait_lab.suites.together import adamw, minimize

# Running, saturating and prefix-share coordinates; then the field's methods.
COMPARED = ("lpi", "vnait-causal", "prefix", "rope", "alibi", "t5", "sinusoidal", "none")
TRAINED, READ = 128, 1024
EDGES = (0, 128, 256, 512, 1024)
WORDS = 2_000


@dataclass(frozen=True, kw_only=True)
class Setting(Training):
    """One setting for every method."""

    steps: int = 1000
    batch: int = 8
    learning_rate: float = 2e-3
    warmup: int = 100
    num_hidden_layers: int = 2
    windows: int = 50  # of READ tokens, of the test text


@dataclass(frozen=True)
class Corpus:
    """Token ids of a text; 0 is padding."""

    train: Tensor = field(repr=False)
    test: Tensor = field(repr=False)
    words: int
    asks: str = "what comes next?"


def corpus(folder: Path) -> Corpus:
    """Tokens are words if the text marks rare ones as <unk>, else letters; tokens that are not among the most
    frequent share one id.
    """
    train, test = ((folder / f"{name}.txt").read_text(encoding="utf-8") for name in ("train", "test"))
    of_words = "<unk>" in train
    parts = [text.split() if of_words else list(text) for text in (train, test)]
    number = {word: i + 2 for i, (word, _) in enumerate(Counter(parts[0]).most_common(WORDS))}
    train_ids, test_ids = (torch.tensor([number.get(word, 1) for word in part]) for part in parts)
    return Corpus(train_ids, test_ids, len(number) + 2)


def fit(method: str, text: Corpus, seeds: Sequence[int], setting: Setting) -> list[VnaitForCausalLM]:
    """One model per seed, one after the other: at this size, training them at once saves no time."""
    return [fit_one(method, text, seed, setting) for seed in seeds]


def fit_one(method: str, text: Corpus, seed: int, setting: Setting) -> VnaitForCausalLM:
    """Two methods read the same windows."""
    model = new_model(
        VnaitForCausalLM,
        setting,
        seed,
        method=method,
        vocab_size=text.words,
        max_length=READ,
        mean_length=TRAINED,
    )
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        start = torch.randint(len(text.train) - TRAINED, (setting.batch, 1), generator=random)
        ids = text.train[start + torch.arange(TRAINED)]
        return model(ids, labels=ids).loss

    minimize(
        loss,
        *adamw(
            model.parameters(),
            steps=setting.steps,
            learning_rate=setting.learning_rate,
            weight_decay=setting.weight_decay,
            warmup=setting.warmup,
        ),
        steps=setting.steps,
    )
    return model.eval()


@torch.no_grad()
def perplexities(
    model: VnaitForCausalLM, text: Corpus, setting: Setting, random: Generator
) -> dict[str, float]:
    """exp of the mean loss of the tokens between two edges: in windows of READ tokens (`far`) and of TRAINED
    tokens (`fresh`).

    The first token of a fresh window has no context, so it counts in neither.
    """
    rows = min(setting.windows, len(text.test) // READ)
    ids = text.test[: rows * READ].reshape(rows, READ)
    far = torch.cat([_losses(model, part) for part in ids.split(2)])
    fresh = torch.cat([_losses(model, part) for part in ids.reshape(-1, TRAINED).split(16)])
    counted = torch.arange(READ) % TRAINED > 0
    means = {}
    for low, high in itertools.pairwise(EDGES):
        some = counted.clone()
        some[:low], some[high:] = False, False
        for name, losses in (("far", far), ("fresh", fresh.reshape(rows, READ))):
            means[f"{name}_{low}_{high}"] = float(losses[:, some].mean().exp())
    return means


def _losses(model: VnaitForCausalLM, ids: Tensor) -> Tensor:
    """The loss of every token; 0 for the first, which has no context."""
    logits = model(ids).logits[:, :-1]
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return torch.nn.functional.pad(losses.reshape(len(ids), -1), (1, 0))


def main() -> None:
    command = parser(__doc__, seeds=2, methods=COMPARED, texts=("tinyshakespeare", "wikitext2"))
    options = command.parse_args()
    data = data_folder(command, "one folder per text (train.txt and test.txt)")
    suite = Suite(
        name="decoder",
        tasks={name: corpus(data / name) for name in options.texts},
        setting=Setting(),
        fit=fit,
        scores=perplexities,
        facts=lambda text: {"trained": TRAINED, "read": READ, "words": text.words},
    )
    run_suite(suite, options, methods=options.methods, tasks=options.texts, path=path_of("decoder"))


if __name__ == "__main__":
    main()
