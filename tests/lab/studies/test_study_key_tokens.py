"""The study of key tokens: gaps and erasure where the answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vnait_lab.studies.key_tokens import TASK, correlation, erased, gaps, untrained


def test_gaps_are_those_of_the_gate() -> None:
    model, ids = untrained("gates", 0).eval(), torch.arange(4, 20)[None]
    assert gaps(model, ids)[0].tolist() == pytest.approx([1.0] * 16)
    gate = model.model.method.coordinates.coordinates.gate
    vectors = model.get_input_embeddings().weight
    with torch.no_grad():  # the filler's last dimension mutes it
        vectors.zero_()[4:12, 0] = 1
        vectors[12:, 1] = 1
        gate.look.weight.zero_()[0, 1] = 9
        gate.look.bias.zero_()
        gate.weigh.weight.zero_()[0, 0] = -9
    assert gaps(model, ids)[0].tolist() == pytest.approx([2.0] * 8 + [0.0] * 8, abs=1e-3)


class Counter(nn.Module):
    """The logit of class 1 is the number of tokens 5."""

    def forward(self, ids: torch.Tensor) -> object:
        ones = (ids == 5).sum(-1).float()
        return type("Output", (), {"logits": torch.stack([torch.zeros_like(ones), ones], -1)})


def test_a_token_is_worth_the_loss_without_it() -> None:
    worth = erased(Counter(), torch.tensor([[5, 7, 5]]), torch.tensor([1]))
    loss = [torch.tensor([0.0, float(n)]).log_softmax(0)[1].neg().item() for n in (1, 2)]
    assert worth[0].tolist() == pytest.approx([loss[0] - loss[1], 0.0, loss[0] - loss[1]])


def test_equal_gaps_have_no_correlation() -> None:
    worth = torch.tensor([[0.0, 1.0, 2.0]])
    assert correlation(torch.ones(1, 3), worth) == 0
    assert correlation(2 * worth, worth) == pytest.approx(1)


def test_the_papers_gaps_come_from_the_words() -> None:
    penalized, free = untrained("content", 0), untrained("content, no penalty", 0)
    assert (penalized.config.smoothness, free.config.smoothness) == (0.1, 0.0)
    ids = TASK.make(2, 8, torch.Generator().manual_seed(0), True)[0]
    with torch.no_grad():
        for parameter in free.model.method.coordinates.parameters():
            parameter.add_(torch.randn_like(parameter))
        one, other = gaps(free.eval(), ids)
    assert not torch.allclose(one, other)
