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
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


def adamw(
    weights: Iterable[Tensor], *, steps: int, learning_rate: float, weight_decay: float, warmup: int
) -> tuple[Optimizer, LRScheduler]:
    """AdamW; the learning rate rises for `warmup` steps, then falls linearly to a twentieth."""
    optimizer = torch.optim.AdamW(weights, lr=learning_rate, weight_decay=weight_decay, fused=True)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, 1) * max(1 - step / steps, 0.05)
    )


def minimize(
    loss: Callable[[int], Tensor | None],
    optimizer: Optimizer,
    schedule: LRScheduler,
    *,
    steps: int,
    clip: float = torch.inf,
) -> None:
    """Minimize `loss(step)` in place; a step without a loss is left out. Gradients are clipped to a norm."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for step in range(steps):
        value = loss(step)
        if value is not None:
            optimizer.zero_grad()
            value.backward()
            if clip < torch.inf:
                torch.nn.utils.clip_grad_norm_(weights, clip)
            optimizer.step()
            schedule.step()


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
    """Train every model on its own batches by `adamw`, in place.

    batches   one per step: tensors whose first axis is over models
    loss      (model, *tensors) -> (), for one model; it calls the model once, with a mask that is not a
              tensor of the batch

    Random draws of a method in training (jitter, random positions) are made once per step for all models, so
    a model's training does not depend on the other models, except for rounding.
    """
    weights, rest = _stacked(models)
    optimizer, schedule = adamw(
        weights.values(), steps=steps, learning_rate=learning_rate, weight_decay=weight_decay, warmup=warmup
    )

    def of_single(learned: dict[str, Tensor], fixed: dict[str, Tensor], *batch: Tensor) -> Tensor:
        def model(*args: Any, **kwargs: Any) -> Any:
            return functional_call(models[0], {**learned, **fixed}, args, kwargs)

        return loss(model, *batch)

    gradient_of = vmap(grad(of_single), randomness="same")
    for _, batch in zip(range(steps), batches, strict=False):
        with sdpa_kernel(SDPBackend.MATH):  # vmap runs a fused kernel model by model
            gradients = gradient_of({name: weight.detach() for name, weight in weights.items()}, rest, *batch)
        for name, weight in weights.items():
            weight.grad = gradients[name]
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
