"""The linear part of a classifier in which the order counts: words and pairs at their places."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vnait.model.linear_part import LinearPart

PLACES = 64  # from either end of a text
IDS = 2**24  # more than any vocabulary has, so that a term is one number


def terms_of(ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"], unknown: int | None) -> Int[Tensor, "B T 4"]:
    """The numbers of the terms that begin at each token: the word and the pair with its right neighbour, at
    their place from the start, then both at their place from the end; -1 for none.

    A term is one of the first or last 64 tokens. It has no unknown word, which is evidence for nothing.
    """
    place = mask.long().cumsum(1) - 1
    left = mask.sum(1, keepdim=True) - 1 - place
    known = mask if unknown is None else mask & (ids != unknown)
    pairs = nn.functional.pad(known[:, :-1] & known[:, 1:], (0, 1))
    second = nn.functional.pad(ids[:, 1:] + 1, (0, 1))  # 0 is no second word
    terms = [
        torch.where(has & (where < PLACES), ((end * PLACES + where) * IDS + ids) * IDS + neighbour, -1)
        for end, where in ((0, place), (1, left))
        for has, neighbour in ((known, torch.zeros_like(ids)), (pairs, second))
    ]
    return torch.stack(terms, -1)


class OneHotWords(LinearPart):
    """The linear part of a classifier: sum_j l_j / sqrt(n) + b over the n known terms j of a text, as
    `terms_of` numbers them. It is the simple model `one-hot` of the vocabulary's words, with one pair more in
    texts of more than 64: the one that begins at the 64th.

    terms    the numbers of the known terms (K,), in ascending order
    logits   l (K, labels);  bias: b (labels,)
    """

    part = "one-hot words"
    refusal = "one-hot words read ids: give input_ids, or drop them with model.bag.reset_parameters()"
    terms: Tensor

    def __init__(self, terms: int, num_labels: int, unknown: int | None = None) -> None:
        super().__init__(terms, num_labels)
        self.unknown = unknown
        self.register_buffer("terms", torch.arange(terms))

    def each(self, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T C"]:
        """Each token's share of the logits: its word's parts, and half of those of a pair."""
        terms = terms_of(ids, mask.bool(), self.unknown)
        at = torch.searchsorted(self.terms, terms).clamp(max=len(self.terms) - 1)
        known = self.terms[at] == terms
        length = known.sum((1, 2)).clamp(min=1).to(self.logits.dtype).sqrt()
        parts = self.logits[at] * known[..., None] / length[:, None, None, None]
        halves = (parts[:, :, 1] + parts[:, :, 3]) / 2
        return parts[:, :, 0] + parts[:, :, 2] + halves + nn.functional.pad(halves[:, :-1], (0, 0, 1, 0))

    def resize(self, vocab_size: int) -> None:
        """Another number of words: its terms stay, and no text has those of words that are gone."""
