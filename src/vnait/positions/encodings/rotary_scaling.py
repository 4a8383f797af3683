"""Rotation at longer texts than trained on: the rules of `rope_parameters` in transformers' configurations.

The frequencies are transformers' own, in float32: their angles are right to 4e-3 at 100,000.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vnait.shared.values import constants

# Rule: required and optional numbers besides factor and original_length, under transformers' names.
_RULES: dict[str, tuple[set[str], set[str]]] = {
    "linear": (set(), set()),
    "dynamic": (set(), set()),
    "yarn": (set(), {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}),
    "llama3": ({"low_freq_factor", "high_freq_factor"}, set()),
    "longrope": ({"short_factor", "long_factor"}, {"attention_factor"}),
}


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Rotation at longer texts than trained on, with transformers' frequencies and attention factor.

    rule                "linear" (position interpolation), "dynamic" (NTK), "yarn", "llama3" or "longrope"
    factor              how many times longer, at least 1
    original_length     the training length; every rule but "linear" needs it
    more                the rule's other numbers, under the names of a configuration's `rope_parameters`

    "dynamic" and "longrope" depend on the length, as the sentence's largest coordinate + 1, without gradient,
    and never on the batch's: past `original_length` an earlier token's angles change as the sentence grows.

    Source: `ROPE_INIT_FUNCTIONS` of transformers (in float32); arXiv 2306.15595, 2309.00071, 2402.13753.

    >>> Scaling(rule="yarn", factor=8.0, original_length=8192).rule
    'yarn'
    """

    rule: Literal["linear", "dynamic", "yarn", "llama3", "longrope"]
    factor: float
    original_length: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.rule not in _RULES:
            raise ValueError(f"the scaling rule {self.rule!r} is not known; take {', '.join(_RULES)}.")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise ValueError(f"the scaling factor is {self.factor}; give a number of at least 1.")
        self._check_length()
        self._check_more()

    def rates(
        self, size: int, base: float, length: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "... size_half"], float]:
        """Radians per position, (size/2,) or (B, size/2), in the dtype of `length`; factor of cos and sin."""
        if self.rule == "dynamic":
            return self._computed(size, base, length[:, None])  # broadcasts: a row of rates per sentence
        rates, factor = self._computed(size, base, None)
        rates = _like(rates, length)
        if self.rule == "longrope":
            assert self.original_length is not None
            long, _ = self._computed(size, base, self.original_length + 1)
            rates = torch.where(length[:, None] > self.original_length, _like(long, length), rates)
        return rates, factor

    def check_fit(self, width: int) -> None:
        """ValueError if heads of this width can't be rotated so."""
        if self.rule == "dynamic" and width < 4:
            raise ValueError("dynamic scaling needs at least 2 pairs of channels; take a greater width.")
        for name in ("short_factor", "long_factor"):
            if name in self.more and len(self.more[name]) != width // 2:
                raise ValueError(
                    f"{name} has {len(self.more[name])} numbers; give one for each of the {width // 2} pairs."
                )

    def _computed(self, size: int, base: float, length: Tensor | int | None) -> tuple[Tensor, float]:
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        numbers = {
            "factor": self.factor,
            "original_max_position_embeddings": self.original_length,
            **self.more,
        }
        config = _Config({"rope_type": self.rule, "rope_theta": base, **numbers}, size, self.original_length)
        # On the CPU if the length is a number: float32 powers differ in the last digit between devices.
        device = length.device if isinstance(length, Tensor) else torch.device("cpu")
        return ROPE_INIT_FUNCTIONS[self.rule](config, device, seq_len=length)

    def _check_length(self) -> None:
        if self.rule == "linear":
            if self.original_length is not None:
                raise ValueError("linear scaling has no original_length; leave it out.")
        elif self.original_length is None or self.original_length < 2:
            raise ValueError(
                f"{self.rule} scaling needs the training length, 2 or more: "
                f"original_length={self.original_length}."
            )

    def _check_more(self) -> None:
        required, optional = _RULES[self.rule]
        if not required <= set(self.more) <= required | optional:
            raise ValueError(
                f"{self.rule} scaling has {_listed(set(self.more))} in `more`; it needs {_listed(required)} "
                f"and may have {_listed(optional)}."
            )
        if self.rule == "llama3" and not 0 < self.more["low_freq_factor"] < self.more["high_freq_factor"]:
            raise ValueError(
                f"llama3 scaling has low_freq_factor={self.more['low_freq_factor']} and "
                f"high_freq_factor={self.more['high_freq_factor']}; the low one must be positive and below "
                "the high one."
            )


def _like(rates: Tensor, like: Tensor) -> Tensor:
    """Rates from the CPU; a GPU would wait for the copy."""
    if like.is_cuda and not torch.compiler.is_compiling():
        return constants(rates.tolist(), like.dtype, like.device)
    return rates.to(like)


class _Config:
    """The settings that transformers' functions read; a plain class, for torch.compile."""

    def __init__(self, rope_parameters: dict[str, Any], width: int, length: int | None) -> None:
        self.rope_parameters = rope_parameters
        self.head_dim = self.hidden_size = width
        self.num_attention_heads = 1
        self.max_position_embeddings = length

    def standardize_rope_params(self) -> None:
        """transformers calls it; nothing to do."""


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
