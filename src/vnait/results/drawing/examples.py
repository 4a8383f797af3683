"""Methods with example texts: untrained, or from a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from vnait.positions.building import build, parameters
from vnait.positions.method import Method
from vnait.shared.errors import InputError, as_input_error, has_surrogate
from vnait.shared.randomness import preserved_generators

if TYPE_CHECKING:
    from vnait.results.fitted import Fitted

SEED = 0
LENGTH = 64
DIM = 128


@dataclass(frozen=True, kw_only=True)
class Example:
    """A method, and the semantic vectors (T, D) of a few texts; heat maps show the first text.

    note    beside the name in the title, such as "trained"
    """

    name: str
    method: Method
    texts: Sequence[Float[Tensor, "T D"]]
    note: str = ""


def from_options(
    names: Sequence[str], *, fitted: Fitted | None, texts: Sequence[str], length: int | None, dim: int | None
) -> list[Example]:
    """Examples for the options of `vnait draw`: the named methods, then that of a trained model, which sets
    the size and the texts of all.
    """
    if fitted is None:
        if not names:
            raise InputError(
                "there is nothing to draw; give the name of a method (see `vnait list`), or --model."
            )
        if texts:
            raise InputError("--example needs --model, whose vocabulary it is read with; leave it out.")
        vectors = random_words(length=length or LENGTH, dim=dim or DIM)
        return [untrained(name, texts=vectors) for name in names]
    if dim is not None:
        raise InputError("--dim is the model's own with --model; leave it out.")
    if texts and length is not None:
        raise InputError("--length follows from --example; leave it out.")
    last = trained(fitted, texts=texts, length=length)
    config = fitted.model.config
    size = {"num_heads": config.num_attention_heads}
    if fitted.max_length is None:
        size["mean_length"] = config.mean_length
    return [*(untrained(name, texts=last.texts, **size) for name in names), last]


def untrained(name: str, *, texts: Sequence[Float[Tensor, "T D"]], **size: Any) -> Example:
    """A method of `METHODS` before training, from a fixed seed, at the width of the texts; `size` as in
    `vnait.build`.
    """
    longest = max(512, *map(len, texts))
    with preserved_generators():
        torch.manual_seed(SEED)
        with as_input_error(ValueError):
            method = build(name, dim=texts[0].shape[-1], max_length=longest, **size)
    return Example(
        name=name, method=method, texts=texts, note="before training" if parameters(method) else ""
    )


@torch.no_grad()
def trained(fitted: Fitted, *, texts: Sequence[str] = (), length: int | None = None) -> Example:
    """The method of a trained model, with these texts, cut as in prediction; without texts, with random words
    of its vocabulary.
    """
    config = fitted.model.config
    if any(map(has_surrogate, texts)):
        raise InputError("the text is not UTF-8; give it in UTF-8.")
    length = length or min(LENGTH, fitted.longest)
    if length > fitted.longest:
        raise InputError(f"--length {length}: the model reads {fitted.longest} tokens at most; take fewer.")
    if texts:
        rows = fitted.ids(texts)
    else:
        generator = torch.Generator().manual_seed(SEED)
        words = torch.tensor([word for word in range(config.vocab_size) if word != config.pad_token_id])
        rows = [
            words[torch.randint(len(words), (size,), generator=generator)].tolist()
            for size in lengths(length)
        ]
    if fitted.max_length is not None:
        return _attached(fitted, rows)
    model = fitted.model.model.eval()
    vectors = [model.semantics(torch.tensor([row]), None, None)[0][0] for row in rows]
    return Example(name=config.method, method=model.method, texts=vectors, note="trained")


def _attached(fitted: Fitted, rows: Sequence[Sequence[int]]) -> Example:
    """The method in a fine-tuned base, at the scale of the vectors that it reads."""
    from vnait.positions.method import described
    from vnait.pretrained.attach.saving import read_by_method

    owner: Any = read_by_method(fitted.model.eval(), "draw")
    words, attached = owner.get_input_embeddings(), owner.vnait
    texts = [words(torch.tensor(row)).float() / attached.scale for row in rows]
    name = attached.arguments["method"] or described(attached.method)
    return Example(name=name, method=attached.method, texts=texts, note=f"in {type(owner).__name__}, trained")


def random_words(*, length: int = LENGTH, dim: int = DIM) -> list[Float[Tensor, "T D"]]:
    """Normal vectors of three texts, with `length` tokens, half and a quarter of it."""
    generator = torch.Generator().manual_seed(SEED)
    return [torch.randn(size, dim, generator=generator) for size in lengths(length)]


def lengths(longest: int) -> list[int]:
    """A length, half and a quarter of it, without repeats.

    >>> lengths(64), lengths(1)
    ([64, 32, 16], [1])
    """
    return list(dict.fromkeys(max(longest // share, 1) for share in (1, 2, 4)))
