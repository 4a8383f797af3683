"""The layers study: a probe reads what is there, on texts it has not seen, and nothing else; attention's
outputs are attention's.
"""

from __future__ import annotations

import torch

from vnait_lab.studies.layers import explained, inside
from vnait_lab.studies.parts.training import Reader


def test_the_probe_reads_what_is_there() -> None:
    random = torch.Generator().manual_seed(0)
    states = torch.randn(40, 16, 8, generator=random)
    assert abs(explained(states)) < 0.1, "noise tells nothing, on texts that the probe was not fitted to"
    place = torch.arange(16.0)
    coded = states.clone()
    coded[..., 3] = 5 - 2 * place
    assert explained(coded) > 0.999
    coded[20:, :, 3] = 5 + 2 * place  # another code in the second half, where the probe is judged
    assert explained(coded) < -1
    half = (
        place[:, None] + 4.6098 * states
    )  # the position's own spread: half of a channel's variance is noise
    assert 0.8 < explained(half) < 0.97  # eight such channels


def test_what_attention_adds() -> None:
    torch.manual_seed(0)
    model = Reader("sinusoidal", vocabulary=9, outputs=9, num_layers=2, causal=True).eval()
    ids = torch.randint(9, (3, 7))
    states, mixed = inside(model, ids)
    block = model.encoder.blocks[0]
    between = states[0] + mixed[0]
    assert len(states) == 3 and len(mixed) == 2
    assert torch.allclose(between + block.feedforward(block.norm_feedforward(between)), states[1], atol=1e-5)
    assert len(inside(model, ids)[1]) == 2, "no hook is left behind"
