"""What each token of a text adds to a logit of a Transformer: integrated gradients, by captum."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vnait.shared.errors import extra

logger = logging.getLogger("vnait")

STEPS = (64, 256, 1024)  # of the integral: the first number that misses the logit by `TOLERANCE` at most
TOLERANCE = 0.01  # of the sum; logits are shown with two digits
TOGETHER = 4096  # tokens that are computed at once


@dataclass(frozen=True)
class Attribution:
    """What tokens add to a logit; sum(added) + constant = logit, to `TOLERANCE`. None without captum."""

    added: list[float] | None
    constant: float | None


def attribute(
    model: Any, tokenizer: Any, ids: Int[Tensor, "1 T"], label: int, bag: Float[Tensor, "T C"] | None = None
) -> Attribution:
    """What the tokens add to the logit of the class `label`, minus the mean over the classes.

    The Transformer's part: integrated gradients (Sundararajan et al. 2017, arXiv:1703.01365) from the vector
    of an unknown word at each place, special tokens apart, to those of the text. To them come the tokens'
    parts of the linear part, the `bag`. The constant is the logit at the start of the integral: it
    has the biases of both, and no word.

    Zeros would be a worse start: from there a LayerNorm jumps, and the integral needs many more steps.
    """
    with extra("explain"):
        from captum.attr import IntegratedGradients

    layer = model.get_input_embeddings()
    mask = torch.ones_like(ids)
    fixed = 0.0 if bag is None else float(_over_mean(bag.sum(0), label))

    def logit(vectors: Float[Tensor, "B T D"]) -> Float[Tensor, " B"]:
        rows = ids.expand(len(vectors), -1)
        with _in_place_of(layer, vectors):
            logits = model(rows, attention_mask=mask.expand_as(rows)).logits
        return _over_mean(logits.float(), label) - fixed

    vectors, start = (layer(rows).detach() for rows in (ids, _without_words(ids, tokenizer)))
    integral = IntegratedGradients(logit)
    together = max(TOGETHER // ids.shape[1], 1)
    with _true_gradients(model), torch.enable_grad():
        for steps in STEPS:
            parts, missed = integral.attribute(
                vectors, start, n_steps=steps, internal_batch_size=together, return_convergence_delta=True
            )
            if missed.abs() <= TOLERANCE:
                break
        else:
            logger.warning("what the tokens add misses the logit by %.2f.", float(missed.abs()))
    added = parts.sum(-1)[0]
    if bag is not None:
        added = added + _over_mean(bag, label)
    with torch.no_grad():
        constant = float(logit(start))
    return Attribution(added.tolist(), constant)


def _over_mean(logits: Float[Tensor, "*any C"], label: int) -> Float[Tensor, "*any"]:
    return logits[..., label] - logits.mean(-1)


def _without_words(ids: Int[Tensor, "1 T"], tokenizer: Any) -> Int[Tensor, "1 T"]:
    """Unknown words in place of all but special tokens; without such a token masked ones, else padding."""
    names = (tokenizer.unk_token_id, tokenizer.mask_token_id, tokenizer.pad_token_id)
    unknown = next(name for name in names if name is not None)
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    return torch.where(special, ids, unknown)


@contextmanager
def _in_place_of(layer: nn.Module, vectors: Tensor) -> Iterator[None]:
    """The layer gives these vectors, whatever it is called with."""
    hook = layer.register_forward_hook(lambda *_: vectors)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _true_gradients(model: nn.Module) -> Iterator[None]:
    """Without the gradients by which clipped weights learn: their integral is not the logit."""
    parts: list[Any] = [part for part in model.modules() if hasattr(part, "true_gradient")]
    try:
        for part in parts:
            part.true_gradient = True
        yield
    finally:
        for part in parts:
            part.true_gradient = False
