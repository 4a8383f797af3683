"""`gradient_shares`: which parts of a model fill the norm of its gradient."""

from __future__ import annotations

from contextlib import suppress

from torch import Tensor, nn
from torch.nn.utils import get_total_norm

PARTS = ("embedding", "coordinates", "encoding", "inputs", "scale", "layers", "head")


def gradient_shares(model: nn.Module) -> dict[str, float]:
    """The share of each of `PARTS` in the squared norm of the gradient, in [0, 1]; empty without a gradient.

    Call it after `loss.backward()`, before gradients are clipped or set to zero. A part that fills the norm
    takes it from the others where the norm is clipped: their steps then depend on this part's noise.

    >>> import torch
    >>> from vnait.model import VnaitConfig, VnaitForSequenceClassification
    >>> model = VnaitForSequenceClassification(VnaitConfig(vocab_size=9, hidden_size=16, method="vnait"))
    >>> gradient_shares(model)
    {}
    >>> model(torch.tensor([[3, 4, 5]]), labels=torch.tensor([1])).loss.backward()
    >>> list(gradient_shares(model))
    ['embedding', 'coordinates', 'encoding', 'inputs', 'layers', 'head']
    """
    embedding, head = (_weights_of(model, name) for name in ("get_input_embeddings", "get_output_embeddings"))
    gradients: dict[str, list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            known = "embedding" if id(weight) in embedding else "head" if id(weight) in head else ""
            gradients.setdefault(known or _part_of(name), []).append(weight.grad.float())
    squares = {part: float(get_total_norm(grads)) ** 2 for part, grads in gradients.items()}
    whole = sum(squares.values())
    return {part: squares[part] / whole if whole else 0.0 for part in PARTS if part in squares}


def _weights_of(model: nn.Module, getter: str) -> set[int]:
    """The ids of the weights of the part that a model of transformers names as its embedding or its head."""
    part = None
    with suppress(AttributeError, NotImplementedError):
        part = getattr(model, getter)()
    return set() if part is None else set(map(id, part.parameters()))


def _part_of(name: str) -> str:
    path = name.split(".")
    if "method" in path:
        return path[path.index("method") + 1]
    if "vnait" in path:  # attached: its gate, and what stands beside its method
        return "encoding"
    if any(step in ("classifier", "score", "lm_head") for step in path):
        return "head"
    return "embedding" if any("vectors" in step or "embed" in step for step in path) else "layers"
