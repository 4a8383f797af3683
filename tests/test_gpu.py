"""Every method on CUDA: the same numbers as on the CPU, no wait for the device in a training step, the step
in a CUDA graph, and a finite step in bfloat16. Skipped without a device.
"""

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from vnait.model import VnaitConfig, VnaitForSequenceClassification, seed_weights
from vnait.positions.methods import METHODS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]
IDS = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 3, 4, 0, 0, 0]])
OTHERS = torch.tensor([[8, 3, 3, 9, 4, 5], [5, 7, 9, 6, 0, 0]])
EMPTY = """
import torch
from vnait.positions.methods import build
method = build("sinusoidal", dim=8, num_heads=2).cuda()
method(torch.ones(1, 2, 8, device="cuda"), torch.zeros(1, 2, dtype=torch.bool, device="cuda"))
torch.cuda.synchronize()
"""


def model_of(name: str) -> VnaitForSequenceClassification:
    config = VnaitConfig(method=name, vocab_size=10, hidden_size=64, num_attention_heads=4, dropout=0.0)
    model = VnaitForSequenceClassification(config)
    seed_weights(model, 0)
    return model.eval()  # training draws numbers, of each device its own


def step(model: VnaitForSequenceClassification, ids: torch.Tensor) -> torch.Tensor:
    """The logits, after a backward pass."""
    found = model(input_ids=ids, labels=torch.arange(2, device=ids.device))
    found.loss.backward()
    return found.logits.detach()


def gradients(model: VnaitForSequenceClassification) -> dict[str, torch.Tensor]:
    return {name: one.grad.cpu() for name, one in model.named_parameters() if one.grad is not None}


def results(model: VnaitForSequenceClassification, device: str) -> dict[str, torch.Tensor]:
    logits = step(model.to(device), IDS.to(device))
    return gradients(model) | {"logits": logits.cpu()}


def assert_close(ours: dict[str, torch.Tensor], reference: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == reference.keys()
    for part, expected in reference.items():
        torch.testing.assert_close(ours[part], expected, rtol=1e-3, atol=1e-5, msg=f"{{}} in {part}".format)


def waits(name: str) -> None:
    """Skip the one method whose rates transformers computes from the length, with a copy to the device."""
    if name == "rope-ntk":
        pytest.skip("transformers' dynamic scaling waits for the device")


@contextmanager
def no_wait() -> Iterator[None]:
    """An error if the processor waits for the device."""
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", METHODS)
def test_a_step_has_the_numbers_of_the_cpu(name: str) -> None:
    assert_close(results(model_of(name), "cuda"), results(model_of(name), "cpu"))


@pytest.mark.parametrize("name", METHODS)
def test_a_step_in_bfloat16_is_finite(name: str) -> None:
    model = model_of(name).train()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert all(one.isfinite().all() for one in results(model, "cuda").values())


@pytest.mark.parametrize("name", METHODS)
def test_a_step_never_waits_for_the_device(name: str) -> None:
    waits(name)
    model, ids = model_of(name).train().cuda(), IDS.cuda()
    step(model, ids)  # what is made once
    with no_wait():
        step(model, ids)
        with torch.no_grad():
            model.eval()(input_ids=ids)


@pytest.mark.parametrize("name", METHODS)
def test_a_captured_step_reads_what_it_is_given(name: str) -> None:
    waits(name)
    model, ids, aside = model_of(name).cuda(), IDS.cuda(), torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            step(model, ids)
    torch.cuda.current_stream().wait_stream(aside)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = step(model, ids)
    ids.copy_(OTHERS)
    graph.replay()
    replayed = gradients(model) | {"logits": logits.cpu()}
    model.zero_grad(set_to_none=True)
    expected = step(model, OTHERS.cuda())
    assert_close(replayed, gradients(model) | {"logits": expected.cpu()})


def test_a_text_without_a_token_stops_the_program_and_is_explained() -> None:
    found = subprocess.run([sys.executable, "-c", EMPTY], capture_output=True, text=True, check=False)
    assert found.returncode != 0 and "each text needs a real token" in found.stderr
