"""The size of a learned coordinate's gradient: it takes no steps from the rest, in any training loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import vnait
from vnait.model import VnaitConfig, VnaitForSequenceClassification
from vnait.positions.coordinates import elastic
from vnait.positions.coordinates.shared import averaged
from vnait.positions.encodings import Blurred
from vnait.positions.gradients import gradient_shares

IDS = torch.randint(3, 20, (16, 60), generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(16) % 3
LEARNED = ("vnait", "vnait-context", "vnait-causal", "vnait-warp", "vnait-paper", "lpi", "cable")


def model(method: str = "vnait") -> VnaitForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "hidden_size": 32, "num_labels": 3, "dropout": 0.0, "max_length": 64}
    return VnaitForSequenceClassification(VnaitConfig(method=method, **sizes)).train()


def share_of_coordinates(network: nn.Module, seed: int = 0) -> float:
    torch.manual_seed(seed)  # of the jitter
    network(IDS, labels=LABELS).loss.backward()
    return gradient_shares(network)["coordinates"]


@contextmanager
def summed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(elastic, "averaged", lambda line, mask: line)
        yield


@pytest.mark.parametrize("method", LEARNED)
def test_coordinates_at_rest_take_at_most_a_fifth_of_the_gradient(method):
    assert 0 < share_of_coordinates(model(method)) < 0.2


@pytest.mark.parametrize("method", ["vnait", "vnait-context"])
def test_summed_gradients_would_fill_it(method, monkeypatch):
    with summed(monkeypatch):
        assert share_of_coordinates(model(method)) > 0.5


def test_a_gradient_is_averaged_over_the_real_tokens_of_its_text():
    line = torch.ones(2, 4, requires_grad=True)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    result = averaged(line, mask)
    assert torch.equal(result, line)
    result.backward(torch.ones(2, 4))
    assert line.grad is not None
    assert line.grad.tolist() == [[0.25] * 4, [0.5] * 4]


def test_shares_are_of_the_squared_norm_and_sum_to_one():
    network = model()
    assert gradient_shares(network) == {}
    share = share_of_coordinates(network)
    weights = {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}
    inside = sum(float(grad.square().sum()) for name, grad in weights.items() if "coordinates" in name)
    assert share == pytest.approx(inside / sum(float(grad.square().sum()) for grad in weights.values()))
    assert sum(gradient_shares(network).values()) == pytest.approx(1)


def test_tied_words_attached_parts_and_half_precision_have_their_shares():
    config = GPT2Config(vocab_size=20, n_embd=16, n_layer=1, n_head=2, n_positions=16)
    network = GPT2LMHeadModel(config)
    vnait.attach(network, "vnait-causal")
    ids = torch.tensor([[3, 4, 5, 6]])
    network(ids, labels=ids).loss.backward()
    shares = gradient_shares(network)
    assert shares["embedding"] > 0 and shares["encoding"] > 0 and shares["layers"] < 1
    for weight in network.parameters():
        if weight.grad is not None:
            weight.data, weight.grad = weight.data.half(), None
            weight.grad = torch.full_like(weight, 3e2)
    assert sum(gradient_shares(network).values()) == pytest.approx(1)


def test_the_trainer_of_transformers_has_the_gradients_of_a_bare_loop(tmp_path):
    in_trainer, bare, seen = without_draws(model()), without_draws(model()), {}

    class Watch(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **kwargs):
            seen.update(gradients(in_trainer))

    settings = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=1,
        per_device_train_batch_size=len(IDS),
        max_grad_norm=0.0,  # not clipped
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    rows = [{"input_ids": ids, "labels": label} for ids, label in zip(IDS, LABELS, strict=True)]
    Trainer(in_trainer, settings, train_dataset=rows, callbacks=[Watch()]).train()
    bare(IDS, labels=LABELS).loss.backward()
    assert seen.keys() == gradients(bare).keys()
    for name, gradient in gradients(bare).items():
        torch.testing.assert_close(seen[name], gradient, msg=lambda text, name=name: f"{name}: {text}")


def without_draws(network: VnaitForSequenceClassification) -> VnaitForSequenceClassification:
    """Without jitter, noise and dropout, which two loops draw differently."""
    network.model.method.coordinates.shift = 0.0
    for part in network.modules():
        if isinstance(part, Blurred):
            part.width = 0.0
    for view in network.model.method.inputs.views:
        view.dropout = 0.0
    return network


def gradients(network: nn.Module) -> dict[str, Tensor]:
    return {
        name: weight.grad.clone() for name, weight in network.named_parameters() if weight.grad is not None
    }
