"""The words of a data set and their semantic vectors: what every method of a comparison shares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from vnait import text as texts_module
from vnait import vectors as vectors_module
from vnait.errors import InputError
from vnait.model import VnaitConfig, VnaitForSequenceClassification, seed_weights
from vnait.vectors import Vectors

if TYPE_CHECKING:
    from vnait.train import Run

DIM = 96  # of vectors trained here; shared by 4 heads of even width


@dataclass(frozen=True, eq=False)
class Lexicon:
    """A tokenizer, a table (V, D) of vectors in the order of its ids, and how frequent words are.

    table       e_w = (v_w - sum_u p_u v_u) / r: each word's vector v_w less their mean over the texts, scaled to a root mean square of 1
    frequency   p, each id's share (V,) of the words of the texts it was made of

    What all vectors share hides what tells them apart (Mu and Viswanath 2018, arXiv:1702.01417), most of all where Word2Vec had few texts.
    One scale for all sources of vectors: every positional method meets semantic vectors of the same size.
    """

    tokenizer: Any
    table: NDArray[np.float32]
    source: str
    frequency: NDArray[np.float32]

    @property
    def dim(self) -> int:
        """The width of the vectors."""
        return int(self.table.shape[1])

    def encode(self, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
        """The ids of each text, at least one and at most `max_length`."""
        return texts_module.encode(self.tokenizer, texts, max_length=max_length)

    def new_model(self, run: Run, classes: Sequence[str], lengths: Sequence[int]) -> VnaitForSequenceClassification:
        """An untrained classifier of texts of these lengths, with these vectors; what two methods share starts equal."""
        config = VnaitConfig(
            method=run.method,
            vocab_size=len(self.table),
            hidden_size=self.dim,
            num_hidden_layers=run.num_layers,
            num_attention_heads=run.num_heads
            or next(heads for heads in (4, 6, 5, 3, 2, 1) if self.dim % (2 * heads) == 0 or heads == 1),
            dropout=run.dropout,
            max_length=run.max_length,
            mean_length=float(np.mean(lengths)),
            tune_vectors=run.tune_vectors,
            smoothness=run.smoothness,
            boundary=run.boundary,
            pad_token_id=self.tokenizer.pad_token_id,
            unk_token_id=self.tokenizer.unk_token_id,
            id2label=dict(enumerate(classes)),
            label2id={name: index for index, name in enumerate(classes)},
        )
        model = VnaitForSequenceClassification(config)
        seed_weights(model, run.seed)
        with torch.no_grad():
            model.get_input_embeddings().weight.copy_(torch.from_numpy(self.table))
        return model

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that tell words, tokenization and vectors from others."""
        words = [
            self.tokenizer.init_kwargs["tokenization"],
            self.tokenizer.convert_ids_to_tokens(range(len(self.table))),
        ]
        tables = self.table.tobytes() + self.frequency.tobytes()
        return hashlib.sha256(json.dumps(words).encode() + tables).hexdigest()[:16]


def learn(texts: Sequence[str], *, tokenization: str = "words", seed: int = 0, dim: int = DIM) -> Lexicon:
    """Word2Vec on the texts themselves; words seen once become unknown."""
    sentences = texts_module.words(texts, tokenization)
    return _lexicon(vectors_module.train(sentences, dim=dim, seed=seed), texts, tokenization)


def look_up(texts: Sequence[str], path: str, *, tokenization: str = "words") -> Lexicon:
    """Vectors from a file, for the words of the texts only."""
    wanted = {word for sentence in texts_module.words(texts, tokenization) for word in sentence}
    found = _lexicon(vectors_module.load(path, wanted), texts, tokenization)
    texts_module.report_unknown(found.tokenizer, texts_module.encode(found.tokenizer, texts, max_length=10**9))
    return found


def _lexicon(vectors: Vectors, texts: Sequence[str], tokenization: str) -> Lexicon:
    tokenizer = texts_module.tokenizer(texts, tokenization=tokenization, vocabulary=vectors.words)
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    table, _ = vectors_module.align(vectors, names)
    if not vectors.table.any():
        raise InputError(f"{vectors.source}: every vector of these words is zero; take other vectors.")
    ids = texts_module.encode(tokenizer, texts, max_length=10**9)
    counts = np.bincount(np.fromiter(chain.from_iterable(ids), dtype=np.int64), minlength=len(names))
    frequency = (counts / counts.sum()).astype(np.float32)
    table = _scaled(table - frequency @ table, tokenizer.all_special_ids)
    table[tokenizer.pad_token_id] = 0
    return Lexicon(tokenizer, table.astype(np.float32), vectors.source, frequency)


def _scaled(table: NDArray[Any], special: Sequence[int]) -> NDArray[Any]:
    """The table (V, D) over the root mean square of its words' rows, those of `special` ids left out; zeros stay."""
    rms = np.sqrt(np.mean(np.square(np.delete(table, special, axis=0))))
    return table / (rms or 1.0)
