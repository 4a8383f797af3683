"""Methods and the words they are shown: as they start, or as a trained model has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from vnait.errors import InputError
from vnait.method import Method
from vnait.methods import build, parameters
from vnait.randomness import apart

if TYPE_CHECKING:
    from vnait.predict import Fitted

SEED = 0
LENGTH = 64
DIM = 128


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A method and what it is shown: the semantic vectors (T, D) of a few texts, of which the first one gets the heat maps.

    note    said beside the name, such as how it was trained
    """

    name: str
    method: Method
    texts: Sequence[Float[Tensor, "T D"]]
    note: str = ""


def asked(
    names: Sequence[str], *, fitted: Fitted | None, texts: Sequence[str], length: int | None, dim: int | None
) -> list[Shown]:
    """The methods of these names and that of a trained model; all are shown the same words, at its size where there is one."""
    if fitted is None:
        if not names:
            raise InputError("there is nothing to draw; give the name of a method (see `vnait list`), or --model.")
        if texts:
            raise InputError("--text needs --model, whose words it is read with; without it random words are shown.")
        return [named(name, texts=random_words(length=length or LENGTH, dim=dim or DIM)) for name in names]
    if dim is not None:
        raise InputError("--dim is the model's own with --model; leave it out.")
    if texts and length is not None:
        raise InputError("--length is that of the words given by --text; leave it out.")
    last = trained(fitted, texts=texts, length=length)
    config = fitted.model.config
    size = {"num_heads": config.num_attention_heads, "mean_length": config.mean_length}
    return [*(named(name, texts=last.texts, **size) for name in names), last]


def named(name: str, *, texts: Sequence[Float[Tensor, "T D"]], **size: Any) -> Shown:
    """A method of `METHODS` as it starts, from a fixed seed, at the texts' width; `size` as in `vnait.build`."""
    longest = max(512, *map(len, texts))
    with apart():
        torch.manual_seed(SEED)
        try:
            method = build(name, dim=texts[0].shape[-1], max_length=longest, **size)
        except ValueError as error:
            raise InputError(str(error)) from error
    return Shown(name=name, method=method, texts=texts, note="before training" if parameters(method) else "")


@torch.no_grad()
def trained(fitted: Fitted, *, texts: Sequence[str] = (), length: int | None = None) -> Shown:
    """The method of a trained model, shown these texts, cut where the model cuts them; or random words of its vocabulary."""
    from vnait.text import encode

    config = fitted.model.config
    if config.model_type != "vnait":
        raise InputError(
            "this model was fine-tuned from a pretrained base, which draw can't look into; ask vnait.audit."
        )
    if any("\ud800" <= mark <= "\udfff" for text in texts for mark in text):
        raise InputError("the text is not UTF-8; give it in UTF-8.")
    length = length or min(LENGTH, config.max_length)
    if length > config.max_length:
        raise InputError(f"--length {length}: the model reads {config.max_length} tokens at most; take fewer.")
    rows = encode(fitted.tokenizer, texts, max_length=config.max_length) if texts else _drawn_ids(config, length)
    model = fitted.model.model.eval()
    vectors = [model.semantics(torch.tensor([row]), None, None)[0][0] for row in rows]
    return Shown(name=config.method, method=model.method, texts=vectors, note="trained")


def random_words(*, length: int = LENGTH, dim: int = DIM) -> list[Float[Tensor, "T D"]]:
    """Normal vectors of three texts: of `length` words, half and a quarter of it."""
    generator = torch.Generator().manual_seed(SEED)
    return [torch.randn(size, dim, generator=generator) for size in lengths(length)]


def lengths(longest: int) -> list[int]:
    """A length, half and a quarter of it, each once.

    >>> lengths(64), lengths(1)
    ([64, 32, 16], [1])
    """
    return list(dict.fromkeys(max(longest // share, 1) for share in (1, 2, 4)))


def _drawn_ids(config: Any, length: int) -> list[list[int]]:
    """Random words of a vocabulary, padding left out."""
    generator = torch.Generator().manual_seed(SEED)
    words = torch.tensor([number for number in range(config.vocab_size) if number != config.pad_token_id])
    return [words[torch.randint(len(words), (size,), generator=generator)].tolist() for size in lengths(length)]
