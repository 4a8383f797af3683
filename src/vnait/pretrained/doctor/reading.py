"""Rules of what the tokens of a layer read: they read in the configured direction and window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vnait.pretrained.doctor.rule import Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import MAX_TOKENS, Subject
from vnait.pretrained.windows import chunk_of, reads_both_ways, window_of
from vnait.shared.errors import plural

FEW = 7  # tokens of a text in which a direction shows
CHANGED = 1  # the place that is changed in layers that read one way
MOST = 12  # layers that are tried; of deeper models these are spread evenly
ANOTHER_TEXT = ("cross", "encdec", "encoder_attn")  # in paths of attention to an encoder's states


class Layer(NamedTuple):
    """A layer: its path, whether its tokens read later ones, and how far they read (None: all)."""

    path: str
    both: bool
    reach: int | None

    def limits(self, count: int) -> dict[str, int]:
        """How many places behind and ahead its tokens read in a text of `count`."""
        reach = count if self.reach is None else min(self.reach, count)
        return {"behind": reach, "ahead": reach if self.both else 0}


def misread(model: Any, path: str, ids: Tensor, place: int, behind: int, ahead: int, **more: Tensor) -> int:
    """How many tokens read a place in a layer and should not, or the reverse: its input there is changed."""
    inputs = {name: text.expand(6, -1) for name, text in {"input_ids": ids, **more}.items()}
    layer, states = model.get_submodule(path), []

    def change(part: Any, args: Any) -> None:
        args[0][1:] = args[0][:1]  # rows of a batch may differ in their last digit
        args[0][2:, place] = args[0][0, -4:]

    def keep(part: Any, args: Any, output: Any) -> None:
        states.append(output[0] if isinstance(output, tuple) else output)

    with layer.register_forward_pre_hook(change), layer.register_forward_hook(keep):
        model(**inputs)
    moved, away = (states[0] - states[0][:1]).abs().amax(2).cpu(), torch.arange(ids.shape[1]) - place
    reads = (moved[2:].amax(0) > 4 * moved[1].max()).int()
    # One whose attention is all elsewhere reads as far as those beyond it.
    reads = torch.cat((reads[:place].cummax(0)[0], reads[place:].flip(0).cummax(0)[0].flip(0)))
    return int((reads != (away <= behind) & (away >= -ahead)).sum())


@rule("DIR01", "direction", Severity.BUG)
def direction(subject: Subject) -> Evidence | None:
    """A layer reads in another direction than the configuration and its attention declare.

    The rule changes one position of a layer's input, and the outputs that move show who reads it.
    `is_causal=False` and `use_bidirectional_attention` of the configuration declare the direction, or else
    `is_causal` of the attention.

    Advice: load it with transformers' own class and the configuration that it was trained with.
    """
    layers = _spread(list(_layers(subject)))
    require(layers, "its layers declare no direction")
    subject.need_float32()
    subject.need_equal_numbers()
    return _misread(subject, layers, FEW, "in both directions", "from left to right")


@rule("WIN01", "window", Severity.BUG)
def window(subject: Subject) -> Evidence | None:
    """A layer reads farther than its window, or not as far.

    The rule works as DIR01, with texts that are longer than the window, up to 1,100 tokens. It tries the
    positions just inside and just outside, in each type of layer. A window of w tokens is the token and the w
    - 1 before it; in encoders it is w on each side. Llama 4 reads within chunks. A layer that keeps the type
    it was built with is measured by that.

    Advice: load it with transformers' own class; a mask without the window, or off by one, is wrong.
    """
    layers = list(_layers(subject))
    reaches = {layer.reach for layer in layers if layer.reach is not None}
    subject.need_equal_numbers()
    subject.need_float32()
    require(reaches, "its configuration has no window of attention")
    count = 2 * max(reaches) + 6 if any(layer.both for layer in layers) else max(reaches) + 5
    most = min(MAX_TOKENS, (subject.declared or MAX_TOKENS) - subject.reserved)
    require(count <= most, f"a text that is longer than its window, {count} tokens, is too long to read here")
    return _misread(subject, _spread(layers), count, "within its window", "within its window")


def _misread(subject: Subject, layers: list[Layer], count: int, *ways: str) -> Evidence | None:
    """The first layer that reads otherwise in a text of `count` tokens."""
    wrong = []
    for layer in layers:
        place = count // 2 - 1 if layer.both else CHANGED
        ids = subject.text(count)
        more = {"decoder_input_ids": ids} if subject.encodes_and_decodes else {}
        arguments = {"path": layer.path, "ids": ids, "place": place, **layer.limits(count), **more}
        trial = subject.trial(misread, f"{count} tokens", part=subject.model, **arguments)
        if trial.size:
            wrong.append((layer, trial))
    if not wrong:
        return None
    layer, trial = wrong[0]
    declared = ways[0] if layer.both else ways[1]
    return trial.evidence(
        f"{plural(len(wrong), 'layer')} of {len(layers)} (first {layer.path}): {trial.size:.0f} of {count} "
        f"tokens read otherwise than {declared}"
    )


def _layers(subject: Subject) -> Iterator[Layer]:
    """The layers whose direction is declared, by the configuration or by `is_causal` of their attention."""
    for before, owner in subject.owners.items():
        both = reads_both_ways(owner.config)
        for number, (path, layer) in enumerate(_stack(subject, before, owner)):
            directions = set(_directions(layer))
            if both or len(directions) == 1:
                reads_both = both or directions == {False}
                reach = window_of(owner.config, number, reads_both, _type_of(layer))
                chunk = chunk_of(owner.config, number)
                yield Layer(path, reads_both, chunk - 1 - CHANGED if chunk else reach)


def _stack(subject: Subject, path: str, owner: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers of one side that get states (B, T, D) first, by their paths in the model."""
    lists = {name: part for name, part in owner.named_modules() if isinstance(part, nn.ModuleList)}
    stack = max(lists, key=lambda name: (len(lists[name]), -len(name)), default=None)
    if stack is None:
        return []
    before = f"{path}.{stack}".removeprefix(".")
    layers = {f"{before}.{name}": layer for name, layer in lists[stack].named_children()}
    usable = set()

    def look(part: nn.Module, args: Any) -> None:
        if args and isinstance(args[0], Tensor) and args[0].ndim == 3 and args[0].shape[1] == FEW:
            usable.add(part)

    handles = [layer.register_forward_pre_hook(look) for layer in layers.values()]
    try:
        ids = subject.text(FEW)
        subject.call(subject.body, input_ids=ids, **({"decoder_input_ids": ids} if subject.more else {}))
    finally:
        for handle in handles:
            handle.remove()
    return [(path, layer) for path, layer in layers.items() if layer in usable]


def _directions(layer: nn.Module) -> Iterator[bool]:
    """`is_causal` of its attention modules, without those that read another text."""
    for path, part in layer.named_modules():
        causal = getattr(part, "is_causal", None)
        if isinstance(causal, bool) and not any(name in path.lower() for name in ANOTHER_TEXT):
            yield causal or getattr(part, "is_decoder", False)  # BigBird-Pegasus marks it there alone


def _type_of(layer: nn.Module) -> str | None:
    """The type of attention that a layer was built with, if it keeps it."""
    types = (
        getattr(part, name, None) for part in layer.modules() for name in ("layer_type", "attention_type")
    )
    return next((kind for kind in types if kind in ("sliding_attention", "full_attention")), None)


def _spread(layers: list[Layer]) -> list[Layer]:
    """At most `MOST` of them, the first and the last of each kind among them."""
    if len(layers) <= MOST:
        return layers
    ends = {layer.reach: layer for layer in (*layers, *reversed(layers))}
    firsts = {layer.reach: layer for layer in reversed(layers)}
    picked = {*layers[:: -(-len(layers) // MOST)], *ends.values(), *firsts.values(), layers[-1]}
    return [layer for layer in layers if layer in picked]
