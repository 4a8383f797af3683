"""Text to ids, by the tokenizer of a pretrained model, with its special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vnait.data.pairs import sides_of
from vnait.data.sentences import Piece, pieces, split_words
from vnait.shared.errors import InputError


def encode(tokenizer: Any, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
    """The ids of each text with the special tokens, cut to `max_length`; at least one unknown word."""
    sides = list(zip(*map(sides_of, texts), strict=True))  # one text of each row, or two
    _check_room(max_length, tokenizer.num_special_tokens_to_add(pair=len(sides) == 2))
    if not texts:  # transformers fails on an empty list
        return []
    ids: list[list[int]] = tokenizer(*map(list, sides), truncation=True, max_length=max_length)["input_ids"]
    return [row or [_unknown(tokenizer)] for row in ids]


def encode_words(tokenizer: Any, texts: Sequence[str], *, max_length: int) -> list[list[Piece]]:
    """Sentences, with a space between two words, in pieces of at most `max_length` ids, each with the special
    tokens. No word is left out.
    """
    before, after = special_tokens(tokenizer)
    _check_room(max_length, len(before) + len(after))
    words = [split_words(text) for text in texts]
    # Behind a space, as in a text: byte-level tokenizers have other tokens at its start.
    flat = [f" {word}" for row in words for word in row]
    rows = tokenizer(flat, add_special_tokens=False)["input_ids"] if flat else []
    each = iter(row or [_unknown(tokenizer)] for row in rows)
    return [pieces([next(each) for _ in row], max_length, before, after) for row in words]


def special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that begin a text, and those that end it."""
    marked = tokenizer("a", return_special_tokens_mask=True)
    ids, mask = marked["input_ids"], marked["special_tokens_mask"]
    first = next((place for place, special in enumerate(mask) if not special), len(mask))
    return ids[:first], ids[first + mask.count(0) :]


def _check_room(max_length: int, special: int) -> None:
    if max_length <= special:
        raise InputError(
            f"max_length is {max_length}, of which the base's special tokens take {special}; increase it."
        )


def _unknown(tokenizer: Any) -> int:
    unknown = tokenizer.unk_token_id
    return tokenizer.pad_token_id if unknown is None else unknown
