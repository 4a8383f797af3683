"""A small model with one positional method, and a plain training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vnait.model.backbone import Encoder
from vnait.positions.building import build
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait_lab.study import Metrics


class Reader(nn.Module):
    """Tokens (B, T) -> logits (B, T, outputs): embedding, positional method, encoder blocks, linear layer.

    method   a name in `METHODS`, or a `Method`
    causal   every token sees itself and the tokens before it

    >>> Reader("rope", vocabulary=10, outputs=3)(torch.tensor([[1, 2, 3, 4]])).shape
    torch.Size([1, 4, 3])
    """

    def __init__(
        self,
        method: str | Method,
        *,
        vocabulary: int,
        outputs: int,
        dim: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        max_length: int = 512,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.causal = causal
        self.vectors = nn.Embedding(vocabulary, dim)
        self.method = (
            build(method, dim=dim, num_heads=num_heads, max_length=max_length)
            if isinstance(method, str)
            else method
        )
        self.encoder = Encoder(
            dim=dim, num_heads=num_heads, intermediate=4 * dim, num_layers=num_layers, dropout=0.0
        )
        self.read = nn.Linear(dim, outputs)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T outputs"]:
        return self.read(self.states(ids)[-1])

    def states(self, ids: Int[Tensor, "B T"]) -> list[Float[Tensor, "B T D"]]:
        """The input and the output of every block."""
        return self.encoder.trace(*self._inputs(ids))

    def weights(self, ids: Int[Tensor, "B T"]) -> list[Float[Tensor, "B H T T"]]:
        """The attention weights of every block."""
        return self.encoder.weights(*self._inputs(ids))

    def _inputs(self, ids: Tensor) -> tuple[Tensor, Injection, Tensor]:
        """The encoder's input, the injection and the attention mask."""
        mask = torch.ones_like(ids, dtype=torch.bool)
        inputs = self.method(self.vectors(ids), mask)
        if self.causal:
            mask = mask[:, None].expand(-1, ids.shape[1], -1).tril()
        return inputs.x, inputs.injection, mask


def descend(
    weights: Iterable[Tensor],
    loss: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.0,
) -> None:
    """Minimize `loss(step)` in place with AdamW; the learning rate follows OneCycle, rising for a tenth of
    the steps.

    >>> x = torch.ones(1, requires_grad=True)
    >>> descend([x], lambda step: x.square().sum(), steps=100, learning_rate=0.1)
    >>> bool(x.abs() < 0.1)
    True
    """
    assert steps >= 20, "OneCycle needs at least 2 of its steps for the rise"
    optimizer = torch.optim.AdamW(weights, lr=learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def accuracies(model: Reader, ids: Tensor, wanted: Tensor, questions: Sequence[str]) -> Metrics:
    """Accuracy per question: logits (B, T, Q times tokens), answers (B, T, Q), or below 0."""
    right = model(ids).unflatten(-1, (len(questions), -1)).argmax(-1) == wanted
    accuracy = right.sum((0, 1)) / (wanted >= 0).sum((0, 1))
    return dict(zip(questions, accuracy.tolist(), strict=True))
