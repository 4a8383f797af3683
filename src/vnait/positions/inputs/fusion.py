"""x = e + s, and the papers' relation of e and s."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates.sources import ZeroLinear

X = Float[Tensor, "B T D"]


class Add(nn.Module):
    """x = e + s, or e if nothing is added.

    >>> Add()(torch.ones(1, 1, 2), torch.ones(1, 1, 2))
    tensor([[[2., 2.]]])
    """

    causal = True
    lookback = 0

    def forward(self, vectors: X, added: X | None) -> X:
        return vectors if added is None else vectors + added


class Fusion(nn.Module):
    """x = e + s + a with a = MLP_rel([e; s; e - s; cos(e, s)]), in the folded form: no 4D concatenation.

    W [e; s; e - s; rho 1] = (W_e + W_D) e + (W_s - W_D) s + rho (W_r 1): the same function as `LiteralFusion`
    with 2Dh + h first-layer weights instead of 4Dh. a starts at zero. Source: the Vnait papers, sections 3.6
    and 3.7; `docs/faithfulness.md`.

    >>> Fusion(dim=4, hidden=2)(torch.ones(1, 3, 4), torch.ones(1, 3, 4))[0, 0]
    tensor([2., 2., 2., 2.], grad_fn=<SelectBackward0>)
    """

    causal = True
    lookback = 0

    def __init__(self, *, dim: int, hidden: int = 16) -> None:
        super().__init__()
        self.semantic = nn.Linear(dim, hidden)
        self.spatial = nn.Linear(dim, hidden, bias=False)
        self.similarity = nn.Linear(1, hidden, bias=False)
        self.out = ZeroLinear(hidden, dim)

    def forward(self, vectors: X, added: X | None) -> X:
        spatial = _needed(added)
        return vectors + spatial + self.relate(vectors, spatial)

    def relate(self, vectors: X, spatial: X) -> X:
        """The association vector a (B, T, D)."""
        rho = cosine(vectors, spatial)[..., None]
        hidden = self.semantic(vectors) + self.spatial(spatial) + self.similarity(rho.to(vectors.dtype))
        return self.out(F.gelu(hidden))


class LiteralFusion(nn.Module):
    """x = e + s + MLP_rel([e; s; e - s; rho 1_D]) with the 4D concatenation, as the papers write it.

    >>> LiteralFusion(dim=4, hidden=8)(torch.ones(1, 3, 4), torch.ones(1, 3, 4)).shape
    torch.Size([1, 3, 4])
    """

    causal = True
    lookback = 0

    def __init__(self, *, dim: int, hidden: int) -> None:
        super().__init__()
        self.inner = nn.Linear(4 * dim, hidden)
        self.out = nn.Linear(hidden, dim)

    def forward(self, vectors: X, added: X | None) -> X:
        spatial = _needed(added)
        rho = cosine(vectors, spatial)[..., None].to(vectors.dtype).expand_as(vectors)
        relation = torch.cat([vectors, spatial, vectors - spatial, rho], -1)
        return vectors + spatial + self.out(F.gelu(self.inner(relation)))


def cosine(x: X, y: X) -> Float[Tensor, "B T"]:
    """rho = <e, s> / (|e| |s|) in [-1, 1]; 0, with a finite gradient, if either norm is 0.

    >>> cosine(torch.tensor([[[3.0, 0.0], [0.0, 0.0]]]), torch.tensor([[[4.0, 0.0], [1.0, 0.0]]]))
    tensor([[1., 0.]])
    """
    # Squares overflow float16 past 255 and are inexact in bfloat16. At 0 a norm has the gradient 0.
    x, y = (part if part.dtype == torch.float64 else part.float() for part in (x, y))
    norms = torch.linalg.vector_norm(x, dim=-1) * torch.linalg.vector_norm(y, dim=-1)
    nonzero = norms > 0
    return torch.where(nonzero, (x * y).sum(-1) / torch.where(nonzero, norms, 1), 0)


def _needed(added: X | None) -> X:
    if added is None:
        raise ValueError(
            "a fusion needs an s, but the encoding added none; take an encoding that adds, or inputs=Add()."
        )
    return added
