"""Models trained at once are what each is alone: against a plain loop, for every method."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from vnait.model import VnaitConfig, VnaitForSequenceClassification, seed_weights
from vnait.positions.methods import METHODS
from vnait_lab.suites.together import train_together

STEPS = 3
DRAWING = {name for name in METHODS if name.split("-")[0] in ("cape", "randomized", "vnait")}
DRAWING -= {"vnait-paper"}
BUDGET = {"learning_rate": 3e-3, "weight_decay": 0.1, "warmup": 2}


def model_of(method: str, seed: int) -> VnaitForSequenceClassification:
    config = VnaitConfig(
        method=method,
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_length=40,
        dropout=0.0,
        tune_vectors=seed % 2 == 0,
    )
    model = VnaitForSequenceClassification(config).train()
    seed_weights(model, seed)
    return model.double()  # Adam's first steps are as large for a gradient that is only rounding


def loss_of(model: nn.Module, ids: Tensor, classes: Tensor) -> Tensor:
    return model(ids, torch.ones(ids.shape), labels=classes).loss


def batches(models: int) -> Iterator[tuple[Tensor, Tensor]]:
    for step in range(STEPS):
        random = torch.Generator().manual_seed(step)
        ids = torch.randint(1, 20, (5, 4, 8 + step), generator=random)
        yield ids[:models], ids[:models, :, 0] % 2


def alone(model: VnaitForSequenceClassification, number: int) -> VnaitForSequenceClassification:
    """Trained by a plain loop on the batches of model `number`."""
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=0.0, weight_decay=BUDGET["weight_decay"])
    for step, (ids, classes) in enumerate(batches(5)):
        optimizer.param_groups[0]["lr"] = (
            BUDGET["learning_rate"] * min((step + 1) / 2, 1) * (1 - step / STEPS)
        )
        optimizer.zero_grad()
        loss_of(model, ids[number], classes[number]).backward()
        optimizer.step()
    return model


@torch.no_grad()
def logits(model: VnaitForSequenceClassification) -> Tensor:
    ids, _ = next(batches(1))
    return model.eval()(ids[0]).logits


@pytest.mark.parametrize("method", sorted(set(METHODS) - DRAWING))
def test_together_is_alone(method: str) -> None:
    """By what the second of two answers after some steps."""
    models = [model_of(method, seed) for seed in (2, 4)]
    before = logits(model_of(method, 4))
    train_together(models, batches(2), loss_of, steps=STEPS, **BUDGET)
    after = logits(models[1])
    assert (after - before).abs().max() > 0.01
    # Where a gradient is next to nothing, Adam makes a step of its rounding.
    torch.testing.assert_close(after, logits(alone(model_of(method, 4), 1)), rtol=0, atol=1e-3)


@pytest.mark.parametrize("method", sorted(DRAWING))
def test_company_does_not_matter(method: str) -> None:
    """The second of five is the second of two, with what is drawn in training."""
    many, few = ([model_of(method, seed) for seed in range(0, 2 * count, 2)] for count in (5, 2))
    before = logits(model_of(method, 2))
    for models in (many, few):
        torch.manual_seed(0)
        train_together(models, batches(len(models)), loss_of, steps=STEPS, **BUDGET)
    assert (logits(many[1]) - before).abs().max() > 0.01
    torch.testing.assert_close(logits(many[1]), logits(few[1]), rtol=0, atol=1e-4)


def test_what_is_not_learned_stays() -> None:
    models = [model_of("vnait", seed) for seed in (1, 3)]
    before = [model.model.vectors.weight.clone() for model in models]
    train_together(models, batches(2), loss_of, steps=STEPS, **BUDGET)
    assert all(
        torch.equal(model.model.vectors.weight, old) for model, old in zip(models, before, strict=True)
    )
