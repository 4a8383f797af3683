"""Several small models of one shape, trained at once: on so small ones most of a step is overhead, and stacked weights pay it once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

Loss = Callable[..., Tensor]


def train_together(
    models: Sequence[nn.Module],
    batches: Iterable[Sequence[Tensor]],
    loss: Loss,
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float,
    warmup: int,
) -> None:
    """Train every model on its own batches with AdamW, in place; the rate rises for `warmup` steps and falls linearly to a twentieth.

    batches   tensors whose first axis is the models', one batch a step
    loss      (model, *tensors) -> (), for one model; it calls the model once, with a mask that is no tensor of the batch

    What a method draws in training (jitter, random positions) is drawn once a step for all models. So a model's training hangs on its
    weights and batches, and not on which others stand beside it, but for rounding.
    """
    weights, rest = _stacked(models)
    optimizer = torch.optim.AdamW(weights.values(), lr=learning_rate, weight_decay=weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, 1) * max(1 - step / steps, 0.05)
    )

    def of_one(own: dict[str, Tensor], fixed: dict[str, Tensor], *batch: Tensor) -> Tensor:
        def model(*args: Any, **kwargs: Any) -> Any:
            return functional_call(models[0], {**own, **fixed}, args, kwargs)

        return loss(model, *batch)

    gradients = vmap(grad(of_one), randomness="same")
    for _, batch in zip(range(steps), batches, strict=False):
        with sdpa_kernel(SDPBackend.MATH):  # the fused one knows no vmap, and would go model by model
            found = gradients({name: weight.detach() for name, weight in weights.items()}, rest, *batch)
        for name, weight in weights.items():
            weight.grad = found[name]
        optimizer.step()
        schedule.step()
    _spread(weights, models)


def _stacked(models: Sequence[nn.Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is learned, and what is not, with an axis of models before all others."""
    parameters, buffers = stack_module_state(list(models))
    weights = {name: weight for name, weight in parameters.items() if weight.requires_grad}
    rest = {name: weight for name, weight in parameters.items() if name not in weights}
    return weights, {**rest, **buffers}


@torch.no_grad()
def _spread(weights: dict[str, Tensor], models: Sequence[nn.Module]) -> None:
    for index, model in enumerate(models):
        for name, weight in model.named_parameters():
            if name in weights:
                weight.copy_(weights[name][index])
