"""Values of tensors: when they can be read, checks that never wait for a GPU, and constants.

On the CPU a value can be read at once. To read one from a GPU, or to copy one to it, the processor must wait
for all that the GPU has still to compute, which slows training down. In a compiled model values are not
available.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor


def precision(*dtypes: torch.dtype) -> torch.dtype:
    """The widest of these, float32 at least."""
    return reduce(torch.promote_types, dtypes, torch.float32)


def full(tensor: Tensor) -> Tensor:
    """The tensor in float32 at least."""
    return tensor.to(precision(tensor.dtype))


def transformed() -> bool:
    """Whether torch.func transforms this call, so that tensors have no values; False in a compiled one."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def readable(numbers: Tensor) -> bool:
    """Whether a number can be read at once: on the CPU, neither compiled nor traced."""
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined]
    return numbers.device.type == "cpu" and not recorded


def all_true(right: Tensor) -> bool:
    """Whether every entry is known to be True."""
    return readable(right) and bool(right.all())


def check(
    right: Tensor, rule: str, message: Callable[..., str], error: type[ValueError] = ValueError
) -> None:
    """Raise error(message(*index)) of the first entry of `right` that is False; compiled, nothing.

    On a GPU nothing waits: a wrong entry ends the program at some later call, after the `rule` is printed.

    >>> check(torch.tensor([True, False]), "numbers are whole", lambda at: f"number {at} is not whole.")
    Traceback (most recent call last):
        ...
    ValueError: number 1 is not whole.
    """
    if torch.compiler.is_compiling():
        return
    if right.is_cuda:
        torch._assert_async(right.all(), f"{rule}; the same batch on the CPU gives a message in full")
    elif not bool(right.all()):
        raise error(message(*(~right).nonzero()[0].tolist()))


def constants(numbers: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """These numbers, (N,), written by the device itself.

    >>> constants((0.5, 2.0), torch.float32, torch.device("cpu"))
    tensor([0.5000, 2.0000])
    """
    return torch.cat([torch.full((1,), number, dtype=dtype, device=device) for number in numbers])
