"""Every method on CUDA: the same numbers as on the CPU, and a finite step in bfloat16. Skipped without a
device.
"""

import pytest
import torch

from vnait.methods import METHODS
from vnait.model import VnaitConfig, VnaitForSequenceClassification, seed_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]
IDS = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 3, 4, 0, 0, 0]])


def model_of(name: str) -> VnaitForSequenceClassification:
    config = VnaitConfig(method=name, vocab_size=10, hidden_size=64, num_attention_heads=4, dropout=0.0)
    model = VnaitForSequenceClassification(config)
    seed_weights(model, 0)
    return model.eval()  # training draws numbers, of each device its own


def gradients(model: VnaitForSequenceClassification, device: str) -> dict[str, torch.Tensor]:
    found = model.to(device)(input_ids=IDS.to(device), labels=torch.tensor([0, 1], device=device))
    found.loss.backward()
    grads = {name: one.grad.cpu() for name, one in model.named_parameters() if one.grad is not None}
    return grads | {"logits": found.logits.detach().cpu()}


@pytest.mark.parametrize("name", METHODS)
def test_a_step_has_the_numbers_of_the_cpu(name: str) -> None:
    ours, reference = gradients(model_of(name), "cuda"), gradients(model_of(name), "cpu")
    assert ours.keys() == reference.keys()
    for part, expected in reference.items():
        torch.testing.assert_close(ours[part], expected, rtol=1e-3, atol=1e-5, msg=lambda _, part=part: part)


@pytest.mark.parametrize("name", METHODS)
def test_a_step_in_bfloat16_is_finite(name: str) -> None:
    model = model_of(name).train()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert all(one.isfinite().all() for one in gradients(model, "cuda").values())
