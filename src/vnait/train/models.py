"""An untrained classifier for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from vnait.data.tasks import CLASSIFICATION, PROBLEMS, TAGGING
from vnait.data.vocabulary import Vocabulary
from vnait.model import (
    VnaitConfig,
    VnaitForSequenceClassification,
    VnaitForTokenClassification,
    seed_weights,
)
from vnait.shared.randomness import Draws
from vnait.train.run import Run

# Texts' worth of evidence that every token counts: with few texts, noise would push weights to 0.
PRIOR = 24.0


def new_model(
    words: Any,
    run: Run,
    classes: Sequence[str],
    lengths: Sequence[int],
    task: str = CLASSIFICATION,
    *,
    draws: Draws | None = None,
) -> Any:
    """The classifier that `words` makes itself, as a pretrained `Base` does, or one on its vectors.

    Its start is drawn from `draws`, by default new ones of the run's seed.
    """
    make = getattr(words, "new_model", None)
    with (draws or Draws(run.seed)).everywhere():
        if make is None:
            return from_vectors(words, run, classes, lengths, task)
        return make(run, classes, lengths, task)


def from_vectors(
    words: Vocabulary, run: Run, classes: Sequence[str], lengths: Sequence[int], task: str = CLASSIFICATION
) -> VnaitForSequenceClassification | VnaitForTokenClassification:
    """An untrained classifier with these vectors; weights that two methods share start equal."""
    even = (heads for heads in (4, 6, 5, 3, 2) if words.dim % (2 * heads) == 0)
    heads = next(even, 1)
    config = VnaitConfig(
        method=run.method,
        vocab_size=len(words.table),
        hidden_size=words.dim,
        num_hidden_layers=run.num_layers,
        num_attention_heads=run.num_heads or heads,
        dropout=run.dropout,
        max_length=run.max_length,
        mean_length=float(np.mean(lengths)),
        tune_vectors=run.tune_vectors,
        smoothness=run.smoothness,
        boundary=run.boundary,
        muting=PRIOR / len(lengths),
        pad_token_id=words.tokenizer.pad_token_id,
        unk_token_id=words.tokenizer.unk_token_id,
        problem_type=PROBLEMS.get(task),
        id2label=dict(enumerate(classes)),
        label2id={name: index for index, name in enumerate(classes)},
    )
    kind = VnaitForTokenClassification if task == TAGGING else VnaitForSequenceClassification
    model = kind(config)
    seed_weights(model, run.seed)
    with torch.no_grad():
        table = np.require(words.table, requirements="W")  # Ray's memory is read-only
        model.get_input_embeddings().weight.copy_(torch.from_numpy(table))
    return model
