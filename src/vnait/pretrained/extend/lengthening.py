"""`lengthen` lets a pretrained model read texts past its limit, untrained; texts within it are read as
before, bit for bit. `shorten` undoes it.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.positions.cache import Mask
from vnait.positions.coordinates.shared import rank
from vnait.pretrained.changing import (
    Changed,
    check_free,
    check_weights,
    checkpoints,
    class_changed,
    enter_classes,
    leave_classes,
    refuse_push,
    remove_hooks,
    write_type,
)
from vnait.pretrained.extend.parts import Inputs, Part, Special, joined, short_part, windows_of
from vnait.pretrained.extend.stretching import (
    LONG,
    READINGS,
    SourceKind,
    Stretch,
    compressed,
    current,
    read_rotation,
    read_table,
)
from vnait.pretrained.locate import Site, accepts, find_sites, first_row, last_states, probe_ids
from vnait.pretrained.windows import windows_of_layers
from vnait.shared.errors import InputError, did_you_mean
from vnait.shared.randomness import evaluating

SETTINGS = "vnait_long"  # in the configuration: the arguments of `lengthen`
TOLERANCE, LEAST = 1e-3, 1e-6  # of the largest state: what rounding may change, and a reading at least


@dataclass(frozen=True, kw_only=True)
class Longer:
    """A model's limit, how it reads on, and what that needs to know of it."""

    reading: str
    limit: int
    special: Special
    source: SourceKind
    first: int

    def stretch(self, mask: Mask) -> Stretch:
        """Of texts with these real tokens."""
        longest = int(mask.sum(-1).max())
        plain = Stretch(
            places=rank(mask).float(),
            limit=self.limit,
            factor=math.ceil(longest / self.limit),
            first=self.first,
        )
        made = READINGS[self.reading].stretch
        assert made is not None
        stretch = made(plain, mask)
        if self.reading == "log-n" and self.source == "table":
            return compressed(stretch, mask)
        return stretch


def lengthen(model: nn.Module, reading: str, *, limit: int | None = None, special: Special = (0, 0)) -> None:
    """Let a model read texts of more than `limit` tokens, by one of `READINGS`.

    Args:
        reading: a name in `READINGS`
        limit: tokens that the model reads as before, bit for bit; None: the length of its position table, or
            `max_position_embeddings`
        special: how many special tokens begin and end a text, which "windows" gives to each window

    Raises:
        InputError: the model's source of position is none that the reading is for.

    `save_pretrained` writes a folder that the Auto classes load as it is, once `vnait` is imported.

    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    >>> bert = BertModel(BertConfig(vocab_size=20, max_position_embeddings=16, **sizes)).eval()
    >>> lengthen(bert, "interpolated")
    >>> bert(torch.arange(20)[None]).last_hidden_state.shape
    torch.Size([1, 20, 8])
    """
    if reading not in READINGS:
        raise InputError(
            f"there is no reading {reading!r}; take one of {', '.join(READINGS)}."
            f"{did_you_mean(reading, READINGS)}"
        )
    site = site_of(model)
    owner = site.owner
    longer = _longer(site, reading, limit, special)
    if longer.source == "table" and reading != "windows":
        for table in site.tables:
            table.module.register_forward_hook(read_table)
    for rotary in site.rotaries:
        rotary.module.register_forward_hook(read_rotation, with_kwargs=True)
    if READINGS[reading].attention:
        owner.set_attn_implementation(LONG)
    setattr(owner.config, SETTINGS, {"reading": reading, "limit": longer.limit, "special": list(special)})
    owner.vnait_longer = longer
    enter_classes(model, owner, _class_of)
    try:
        _check(owner, longer)
    except BaseException:
        shorten(model)
        raise


def shorten(model: nn.Module) -> None:
    """Undo `lengthen`."""
    leave_classes(model)
    owners: list[Any] = [part for part in model.modules() if "vnait_longer" in vars(part)]
    for owner in owners:
        if READINGS[owner.vnait_longer.reading].attention:
            owner.set_attn_implementation("sdpa")
        delattr(owner.config, SETTINGS)
        del owner.vnait_longer
        remove_hooks(owner, read_table, read_rotation)


def _longer(site: Site, reading: str, limit: int | None, special: Special) -> Longer:
    """The settings of `lengthen`, checked against the model."""
    owner, name = site.owner, type(site.owner).__name__
    source = source_of(site)
    if source not in READINGS[reading].sources:
        possible = [fit for fit, entry in READINGS.items() if source in entry.sources]
        has = {"table": "a position table", "rotation": "a rotation", "other": "neither table nor rotation"}
        raise InputError(f"{reading} is not for {name}, which has {has[source]}; take {', '.join(possible)}.")
    if source != "other" and reading != "windows" and not accepts(owner, "position_ids"):
        raise InputError(f"{name} takes no position_ids, so {reading} can't be given to it; take windows.")
    if READINGS[reading].attention and owner.config._attn_implementation != "sdpa":
        kind = owner.config._attn_implementation
        raise InputError(
            f'{reading} needs sdpa attention, and {name} has {kind}; load it with attn_implementation="sdpa".'
        )
    first, rows = 0, owner.config.get_text_config().to_dict().get("max_position_embeddings")
    if source == "table":
        table: Any = site.tables[0].module
        first = first_row(owner, table)
        if first < 0 or len(site.tables) > 1:
            raise InputError(f"{name} does not read one position table row by row; take another model.")
        rows = len(table.weight) - first
    longest = rows if limit is None else limit
    if longest is None:
        raise InputError(f"{name} has no limit of its own; give limit=, the tokens that it was trained on.")
    if longest <= sum(special) + 1 or (source == "table" and longest > rows):
        raise InputError(
            f"limit={longest} is not possible: {name} reads {rows} tokens, and texts have {sum(special)} "
            "special ones; give a number between."
        )
    return Longer(
        reading=reading, limit=longest, special=(special[0], special[1]), source=source, first=first
    )


def site_of(model: nn.Module) -> Site:
    """Where the position of a model with one side enters; `InputError` if it can't be lengthened."""
    check_free(model)
    check_weights(model)
    sites = find_sites(model)
    if len(sites) > 1:
        raise InputError(
            f"{type(model).__name__} has an encoder and a decoder, and a model with one side was expected; "
            "give its encoder, such as T5EncoderModel."
        )
    if sites[0].patches is not None:
        raise InputError(f"{type(model).__name__} reads images, and a model that reads texts was expected.")
    return sites[0]


def source_of(site: Site) -> SourceKind:
    """The kind of its source of position."""
    learned = any(isinstance(table.module, nn.Embedding) for table in site.tables)
    return "table" if learned else "rotation" if site.rotaries else "other"


class _Lengthened(Changed):
    """Parent of the class of a lengthened model, and of the models around it."""

    def save_pretrained(self: Any, save_directory: str | Path, *args: Any, **options: Any) -> None:
        refuse_push(options)
        self.plain.save_pretrained(self, save_directory, *args, **options)
        if (Path(save_directory) / "config.json").is_file():  # not on other processes of a training
            write_type(save_directory)


@functools.cache
def _class_of(plain: Any, reads: bool) -> Any:
    made = (_class_of, reads)
    if not reads:
        return class_changed((_Lengthened,), plain, made)

    @functools.wraps(plain.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        read = functools.partial(plain.forward, self)
        inputs = Inputs.of(self, args, kwargs)
        longer: Longer | None = getattr(self, "vnait_longer", None)
        if longer is None or inputs.length <= longer.limit:
            return read(*args, **kwargs)
        if READINGS[longer.reading].attention and self.config._attn_implementation != LONG:
            raise InputError(
                f"{self.config._attn_implementation} attention reads long texts without {longer.reading}; "
                f'call model.set_attn_implementation("{LONG}").'
            )
        if READINGS[longer.reading].attention and checkpoints(self):
            raise InputError(
                f"gradient checkpointing computes the layers again without {longer.reading}; train without "
                "checkpointing, or take another reading."
            )
        return _read(longer, read, inputs)

    return class_changed((_Lengthened,), plain, made, forward=forward)


def _read(longer: Longer, read: Callable[..., Any], inputs: Inputs) -> Any:
    """The outputs of a batch with texts past the limit: these by the reading, others as without them."""
    lengths = inputs.mask.sum(-1)
    parts: list[Part] = []
    if (lengths <= longer.limit).any():
        parts.append(short_part(inputs, longer.limit, read))
    long = (lengths > longer.limit).nonzero()[:, 0]
    if longer.reading == "windows":
        parts += [windows_of(inputs, int(row), longer.limit, longer.special, read) for row in long]
    else:
        factors = (lengths[long] + longer.limit - 1) // longer.limit
        for factor in factors.unique():
            parts.append(_stretched_part(longer, inputs, long[factors == factor], read))
    return joined(parts, inputs)


def _stretched_part(longer: Longer, inputs: Inputs, rows: Tensor, read: Callable[..., Any]) -> Part:
    part, columns = inputs.trimmed(rows)
    stretch = longer.stretch(part.mask)
    with current.holding(stretch):
        output = read(**{**part.values, **_positions(longer, part, stretch)})
    return Part(rows=rows, columns=columns, output=output)


def _positions(longer: Longer, part: Inputs, stretch: Stretch) -> dict[str, Tensor]:
    if "position_ids" not in part.names or longer.source == "other":
        return {}
    if longer.source == "table":
        return {"position_ids": stretch.places.long() + longer.first}
    return {"position_ids": torch.zeros_like(stretch.places) if stretch.near else stretch.places}


def _check(owner: PreTrainedModel, longer: Longer) -> None:
    """By its reading the model reads a text that just fits as before, and one four times longer otherwise."""
    if longer.reading in ("windows", "unchanged"):
        return
    ids = probe_ids(owner, 1, 4 * min(longer.limit // 4, 16))
    inputs = Inputs.of(owner, (), {"input_ids": ids})
    plain, name = type(owner).plain, type(owner).__name__
    before = last_states(owner, ids)
    change = []
    with evaluating(owner):
        for times in (1, 4):
            tried = replace(longer, limit=ids.shape[1] // times)
            rows = torch.zeros(1, dtype=torch.long, device=ids.device)
            read = functools.partial(plain.forward, owner)
            states = _stretched_part(tried, inputs, rows, read).output["last_hidden_state"]
            change.append(float((states - before).abs().max() / before.abs().max()))
    if change[0] > TOLERANCE or change[1] <= max(2 * change[0], LEAST):
        wrong = "a text within its limit" if change[0] > TOLERANCE else "no text"
        reason = "its positions enter in a way that is not known"
        if None not in windows_of_layers(owner.config):
            reason = "each of its layers reads a window of neighbours, which stays as it is"
        raise InputError(f"{name} reads {wrong} otherwise by {longer.reading}: {reason}; take windows.")
