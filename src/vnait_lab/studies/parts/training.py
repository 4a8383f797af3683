"""A small model with one positional method, and a plain training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.model.backbone import Encoder
from vnait.positions.building import build
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait_lab.study import Metrics
from vnait_lab.suites.together import minimize


class Stack(nn.Module):
    """What reads tokens: vectors, a positional method, encoder blocks, and a linear layer `read`.

    method      a name in `METHODS`, or a `Method`
    vectors     tokens of any shape -> vectors (B, T, dim); by default an embedding of `vocabulary` ids
    wide        the width of the blocks' MLPs, in widths of the vectors
    causal      every token sees itself and the tokens before it; `window` is how many in all
    mask        (B, T), True for real tokens
    positions   (B, T, P), known positions in place of counted ones
    """

    def __init__(
        self,
        method: str | Method,
        *,
        outputs: int,
        vocabulary: int = 0,
        vectors: nn.Module | None = None,
        dim: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        wide: int = 4,
        dropout: float = 0.0,
        max_length: int = 512,
        mean_length: float = 24.0,
        causal: bool = False,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.causal, self.window = causal, window
        self.vectors = nn.Embedding(vocabulary, dim) if vectors is None else vectors
        self.method = build(
            method, dim=dim, num_heads=num_heads, max_length=max_length, mean_length=mean_length
        )
        self.encoder = Encoder(
            dim=dim, num_heads=num_heads, intermediate=wide * dim, num_layers=num_layers, dropout=dropout
        )
        self.read = nn.Linear(dim, outputs)

    def pooled(
        self, tokens: Tensor, mask: Tensor | None = None, positions: Tensor | None = None
    ) -> Float[Tensor, "B outputs"]:
        """The outputs of the mean over real tokens."""
        states = self.states(tokens, mask, positions)[-1]
        if mask is None:
            return self.read(states.mean(1))
        return self.read((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))

    def states(
        self, tokens: Tensor, mask: Tensor | None = None, positions: Tensor | None = None
    ) -> list[Float[Tensor, "B T D"]]:
        """The input and the output of every block."""
        return self.encoder.trace(*self._inputs(tokens, mask, positions))

    def weights(self, tokens: Tensor) -> list[Float[Tensor, "B H T T"]]:
        """The attention weights of every block."""
        return self.encoder.weights(*self._inputs(tokens))

    def _inputs(
        self, tokens: Tensor, mask: Tensor | None = None, positions: Tensor | None = None
    ) -> tuple[Tensor, Injection, Tensor]:
        """The encoder's input, the injection and the attention mask."""
        vectors = self.vectors(tokens)
        count = vectors.shape[1]
        if mask is None:
            mask = torch.ones(vectors.shape[:2], dtype=torch.bool)
        inputs = self.method(vectors, mask, positions)
        if self.causal:
            seen = mask[:, None].expand(-1, count, -1).tril().triu(1 - (self.window or count))
            mask = seen | torch.eye(count, dtype=torch.bool)  # padding sees itself
        return inputs.x, inputs.injection, mask


class Reader(Stack):
    """Tokens -> outputs (B, T, outputs), one per token.

    >>> Reader("rope", vocabulary=10, outputs=3)(torch.tensor([[1, 2, 3, 4]])).shape
    torch.Size([1, 4, 3])
    """

    def forward(self, tokens: Tensor) -> Float[Tensor, "B T outputs"]:
        return self.read(self.states(tokens)[-1])


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
    minimize(loss, optimizer, schedule, steps=steps)


@torch.no_grad()
def accuracies(model: Reader, ids: Tensor, wanted: Tensor, questions: Sequence[str]) -> Metrics:
    """Accuracy per question: logits (B, T, Q times tokens), answers (B, T, Q), or below 0."""
    right = model(ids).unflatten(-1, (len(questions), -1)).argmax(-1) == wanted
    accuracy = right.sum((0, 1)) / (wanted >= 0).sum((0, 1))
    return dict(zip(questions, accuracy.tolist(), strict=True))
