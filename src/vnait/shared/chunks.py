"""Many tokens, a few at a time: what is computed on the way takes little memory and stays in the processor's
cache. On the CPU only, since a GPU would wait for many small calls; and without gradients, which need it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import cast

import torch
from torch import Tensor

from vnait.shared.values import readable

CHUNK = 2048  # tokens
PAIRS = 2**18  # of tokens; a larger block would be asked of the system anew, page by page


def map_texts(read: Callable[..., Tensor], *parts: Tensor | None) -> Tensor:
    """read(*parts), (B, T, any), of which a text depends on its own rows of the parts (B, T, any) only.

    >>> map_texts(torch.add, torch.ones(3, 2, 1), torch.ones(3, 2, 1)).shape
    torch.Size([3, 2, 1])
    """
    batch, length = cast(Tensor, parts[0]).shape[:2]
    texts = max(CHUNK // max(length, 1), 1)
    if _whole(parts[0]) or batch <= texts:
        return read(*parts)
    chunks = zip(*(repeat(None) if part is None else part.split(texts) for part in parts), strict=False)
    return _joined((read(*chunk) for chunk in chunks), batch, 0)


def map_tokens(
    read: Callable[[Tensor, Tensor], Tensor], words: Tensor, mask: Tensor, *, before: int = 0, after: int = 0
) -> Tensor:
    """read(words, mask), (B, T), of which each number depends on `before` tokens before and `after` after it.

    >>> map_tokens(lambda words, mask: words.sum(-1) * mask, torch.ones(1, 2, 3), torch.ones(1, 2)).tolist()
    [[3.0, 3.0]]
    """
    batch, length = mask.shape
    if _whole(words) or batch * length <= CHUNK:
        return read(words, mask)
    if batch > 1:
        return map_texts(lambda *text: map_tokens(read, *text, before=before, after=after), words, mask)
    parts = []
    for start in range(0, length, CHUNK):
        first = max(start - before, 0)
        chunk = slice(first, start + CHUNK + after)
        parts.append(read(words[:, chunk], mask[:, chunk])[:, start - first :][:, :CHUNK])
    return torch.cat(parts, 1)


def map_queries(read: Callable[[Tensor, Tensor], Tensor], queries: Tensor, keys: Tensor) -> Tensor:
    """read(queries, keys), (B, H, TQ, T), of queries (B, A, TQ, 1) and keys (B, A, 1, T), each query alone.

    >>> map_queries(torch.sub, torch.ones(1, 1, 2, 1), torch.ones(1, 1, 1, 3)).shape
    torch.Size([1, 1, 2, 3])
    """
    if _whole(queries):  # first: a traced size must not become a constant
        return read(queries, keys)
    count = queries.shape[2]
    size = max(PAIRS // max(len(keys) * keys.shape[-1], 1), 1)
    if count <= size:
        return read(queries, keys)

    def block(chunk: Tensor) -> Tensor:
        return read(chunk, keys).expand(-1, -1, chunk.shape[2], -1)  # a formula may leave out the query

    return _joined(map(block, queries.split(size, 2)), count, 2)


def _joined(parts: Iterator[Tensor], count: int, axis: int) -> Tensor:
    """torch.cat of parts with `count` rows in all, which need not all be there at once."""
    first = next(parts)
    whole = first.new_empty(*first.shape[:axis], count, *first.shape[axis + 1 :])
    start = 0
    for part in chain([first], parts):
        whole.narrow(axis, start, part.shape[axis]).copy_(part)
        start += part.shape[axis]
    return whole


def _whole(words: Tensor | None) -> bool:
    traced = torch._C._get_tracing_state() is not None
    return torch.is_grad_enabled() or traced or not readable(cast(Tensor, words))
