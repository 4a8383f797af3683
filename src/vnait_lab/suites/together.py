"""Train several small models of one shape at once: at this size most of a step is overhead, and stacked
weights pay it once for all models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel


def train_together(
    models: Sequence[nn.Module],
    batches: Iterable[Sequence[Tensor]],
    loss: Callable[..., Tensor],
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float,
    warmup: int,
) -> None:
    """Train every model on its own batches with AdamW, in place. The learning rate rises for `warmup` steps,
    then falls linearly to a twentieth.

    batches   one per step: tensors whose first axis is over models
    loss      (model, *tensors) -> (), for one model; it calls the model once, with a mask that is not a
              tensor of the batch

    Random draws of a method in training (jitter, random positions) are made once per step for all models, so
    a model's training does not depend on the other models, except for rounding.
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
        with sdpa_kernel(SDPBackend.MATH):  # vmap runs a fused kernel model by model
            found = gradients({name: weight.detach() for name, weight in weights.items()}, rest, *batch)
        for name, weight in weights.items():
            weight.grad = found[name]
        optimizer.step()
        schedule.step()
    _spread(weights, models)


def _stacked(models: Sequence[nn.Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Trained weights, and all other tensors, with a first axis over models."""
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
