"""What must not change a result: global random generators, and the training mode of a module's parts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

# aten's names of what these fill an empty tensor by: PyTorch 2.6 gives them no generator.
_LIKE = {"rand_like": "uniform_", "randn_like": "normal_"}


class Draws:
    """Random numbers of a computation's own: one generator per device, which no other thread and no other
    user of PyTorch reads. Each has the numbers of `torch.manual_seed(seed)`.

    >>> draws = Draws(0)
    >>> with draws.everywhere():
    ...     number = torch.rand(1)
    >>> torch.equal(number, torch.rand(1, generator=torch.Generator().manual_seed(0)))
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.generators: dict[torch.device, torch.Generator] = {}

    def on(self, device: torch.device) -> torch.Generator:
        """The generator of a device."""
        if device.index is None and device.type != "cpu":  # the one in use
            device = torch.empty(0, device=device).device
        if device not in self.generators:
            self.generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self.generators[device]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """`generator` answers with these inside."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Every operation of PyTorch in this thread draws from these inside, at a few microseconds each."""
        with self.inside(), _Served(self):
            yield

    def state(self) -> dict[str, Tensor]:
        """The state of each generator, by its device."""
        return {str(device): generator.get_state() for device, generator in self.generators.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state`."""
        for name, numbers in state.items():
            self.on(torch.device(name)).set_state(numbers)


_current: ContextVar[Draws | None] = ContextVar("draws", default=None)


def generator(device: torch.device) -> torch.Generator | None:
    """What the computation around this call draws from; None, for PyTorch's own, without one or compiled."""
    if torch.compiler.is_compiling() or (draws := _current.get()) is None:
        return None
    return draws.on(device)


class Dropout(nn.Dropout):
    """PyTorch's dropout, of which the mask comes from `generator`: the same numbers, bit for bit on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        source = generator(input.device) if self.training and 0 < self.p < 1 else None
        if source is None or self.inplace:
            return super().forward(input)
        return input * torch.empty_like(input).bernoulli_(1 - self.p, generator=source).div_(1 - self.p)


def draws_itself(module: nn.Module) -> bool:
    """Whether a part may draw in training without asking `generator`, as those of other libraries do."""
    return any(
        not isinstance(part, Dropout)
        and (
            type(part).__module__.partition(".")[0] not in ("vnait", "torch")
            or isinstance(part, nn.modules.dropout._DropoutNd | nn.RNNBase | nn.MultiheadAttention | nn.RReLU)
        )
        for part in module.modules()
    )


class _Served(TorchDispatchMode):
    """Gives the generator of `draws` to each operation that PyTorch knows to be random, of this thread."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        tensor = next((value for value in args if isinstance(value, Tensor)), None)
        device = kwargs.get("device") or (torch.device("cpu") if tensor is None else tensor.device)
        packet, name = func.overloadpacket, func._schema.name.removeprefix("aten::")
        if device.type == "meta":
            return func(*args, **kwargs)
        source = self.draws.on(device)
        if name in _LIKE:
            return getattr(torch.empty_like(*args, **kwargs), _LIKE[name])(generator=source)
        if name == "native_dropout":  # what PyTorch calls on a GPU
            keep = torch.empty_like(args[0], dtype=torch.bool).bernoulli_(1 - args[1], generator=source)
            return args[0] * keep / (1 - args[1]), keep
        if _takes_generator(packet):
            return packet(*args, generator=source, **kwargs)
        return func(*args, **kwargs)  # fused attention, which draws with dropout and on a GPU alone


@cache
def _takes_generator(packet: Any) -> bool:
    schemas = (getattr(packet, overload)._schema for overload in packet.overloads())
    return any(argument.name == "generator" for schema in schemas for argument in schema.arguments)


@contextmanager
def preserved_generators() -> Iterator[None]:
    """Restore the generators on exit; else a bootstrap around a seeded training would repeat one draw."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def seed_generators(seed: int) -> None:
    """Seed PyTorch's generators that are in use.

    `torch.manual_seed` also keeps a stack trace for each kind of device that is not, which takes longer than
    starting a small module.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the training mode of every part is restored, and the kind
    of attention that BigBird changes permanently for a short text.
    """
    training = {part: part.training for part in module.modules()}
    kinds = {part: part.attention_type for part in training if hasattr(part, "set_attention_type")}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, was in training.items():
            part.training = was
        for owner, kind in kinds.items():
            cast(Any, owner).set_attention_type(kind)
