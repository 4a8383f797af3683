"""Language models that read further than they were trained to: perplexity by position, trained on 128 tokens and read at 1,024.

    VNAIT_DATA=DIR python studies/decoder.py [--texts tinyshakespeare,wikitext2] [--methods vnait-causal,rope] [--seeds 2] [--jobs N]

DIR has a folder a text, with train.txt and test.txt. Letters of tinyshakespeare; words of wikitext2, the 2,000 most frequent ones.
Beside each perplexity stands that of the same tokens in fresh windows of 128: later tokens of a text are not as hard as earlier ones.
Records go to studies/records/decoder; what is there is not run again.
"""

import argparse
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Generator, Tensor

from vnait import VnaitConfig, VnaitForCausalLM
from vnait.model import seed_weights
from vnait.suites.cells import Budget, Suite

PATH = Path(__file__).parent / "records" / "decoder" / "records.jsonl"
# Running, saturating and share of the prefix ; then the field's.
METHODS_ASKED = ("lpi", "vnait-causal", "prefix", "rope", "alibi", "t5", "sinusoidal", "none")
TRAINED, READ = 128, 1024
EDGES = (0, 128, 256, 512, 1024)
WORDS = 2_000


@dataclass(frozen=True, kw_only=True)
class Setting(Budget):
    """One budget for every method."""

    steps: int = 1000
    batch: int = 8
    learning_rate: float = 2e-3
    warmup: int = 100
    weight_decay: float = 0.01
    hidden_size: int = 64
    num_hidden_layers: int = 2
    windows: int = 50  # of READ tokens, of the test text


@dataclass(frozen=True)
class Corpus:
    """Ids of a text; 0 is padding's."""

    train: Tensor = field(repr=False)
    test: Tensor = field(repr=False)
    words: int
    asks: str = "what comes next?"


def corpus(folder: Path) -> Corpus:
    """Letters where it is written in letters, words where they stand apart, the rare ones as one."""
    train, test = ((folder / f"{name}.txt").read_text(encoding="utf-8") for name in ("train", "test"))
    of_words = "<unk>" in train
    parts = [text.split() if of_words else list(text) for text in (train, test)]
    number = {word: i + 2 for i, (word, _) in enumerate(Counter(parts[0]).most_common(WORDS))}
    train_ids, test_ids = (torch.tensor([number.get(word, 1) for word in part]) for part in parts)
    return Corpus(train_ids, test_ids, len(number) + 2)


def fit(method: str, read: Corpus, seeds: Sequence[int], setting: Setting) -> list[VnaitForCausalLM]:
    """One after the other: at this size nothing is gained by training them at once."""
    return [fit_one(method, read, seed, setting) for seed in seeds]


def fit_one(method: str, read: Corpus, seed: int, setting: Setting) -> VnaitForCausalLM:
    """What two methods share starts equal, and both read the same windows."""
    model = VnaitForCausalLM(
        VnaitConfig(
            method=method,
            vocab_size=read.words,
            hidden_size=setting.hidden_size,
            num_hidden_layers=setting.num_hidden_layers,
            max_length=READ,
            mean_length=TRAINED,
            dropout=0.0,
        )
    ).train()
    seed_weights(model, seed)
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=setting.learning_rate, weight_decay=setting.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / setting.warmup, 1) * max(1 - step / setting.steps, 0.05)
    )
    for _ in range(setting.steps):
        start = torch.randint(len(read.train) - TRAINED, (setting.batch, 1), generator=random)
        ids = read.train[start + torch.arange(TRAINED)]
        optimizer.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def perplexities(model: VnaitForCausalLM, read: Corpus, setting: Setting, random: Generator) -> dict[str, float]:
    """exp of the mean loss of the tokens between two edges: in windows of READ tokens, and (`fresh`) in windows of TRAINED.

    The first token of a fresh window has nothing before it, and counts in neither.
    """
    rows = min(setting.windows, len(read.test) // READ)
    ids = read.test[: rows * READ].reshape(rows, READ)
    far = torch.cat([_losses(model, part) for part in ids.split(2)])
    fresh = torch.cat([_losses(model, part) for part in ids.reshape(-1, TRAINED).split(16)]).reshape(rows, READ)
    counted = torch.arange(READ) % TRAINED > 0
    found = {}
    for low, high in itertools.pairwise(EDGES):
        some = counted.clone()
        some[:low], some[high:] = False, False
        for name, losses in (("far", far), ("fresh", fresh)):
            found[f"{name}_{low}_{high}"] = float(losses[:, some].mean().exp())
    return found


def _losses(model: VnaitForCausalLM, ids: Tensor) -> Tensor:
    """Of every token from what precedes it; 0 of the first."""
    logits = model(ids).logits[:, :-1]
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return torch.nn.functional.pad(losses.reshape(len(ids), -1), (1, 0))


def facts(read: Corpus) -> dict[str, int]:
    return {"trained": TRAINED, "read": READ, "words": read.words}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", default="tinyshakespeare,wikitext2")
    parser.add_argument("--methods", default=",".join(METHODS_ASKED))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    data = os.environ.get("VNAIT_DATA")
    if data is None:
        parser.error("VNAIT_DATA is not set; set it to a folder with a folder a text (train.txt and test.txt).")
    texts = {name: corpus(Path(data) / name) for name in options.texts.split(",")}
    Suite(name="decoder", tasks=texts, fit=fit, scores=perplexities, facts=facts).run(
        methods=tuple(options.methods.split(",")),
        tasks=tuple(texts),
        seeds=range(options.seeds),
        setting=Setting(),
        path=PATH,
        jobs=options.jobs,
        watch=lambda done, total, record: print(f"{done} of {total}", flush=True),
    )


if __name__ == "__main__":
    main()
