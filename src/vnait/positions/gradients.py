"""`gradient_shares`: which parts of a model fill the norm of its gradient."""

from __future__ import annotations

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
    gradients: dict[str, list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            gradients.setdefault(_part_of(name), []).append(weight.grad)
    squares = {part: float(get_total_norm(grads)) ** 2 for part, grads in gradients.items()}
    whole = sum(squares.values())
    return {part: squares[part] / whole if whole else 0.0 for part in PARTS if part in squares}


def _part_of(name: str) -> str:
    path = name.split(".")
    if "method" in path:
        return path[path.index("method") + 1]
    if any(step in ("classifier", "score", "lm_head") for step in path):
        return "head"
    return "embedding" if any("vectors" in step or "embed" in step for step in path) else "layers"
