"""Several texts in one row: `position_ids` that start again at 0 begin another text, which is read alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from vnait.shared.errors import InputError


class Packing(NamedTuple):
    """Where each of N texts of up to L tokens stands in B rows of T tokens.

    row, column   (N, L), of each token; padding has some other token's
    real          (N, L), False at padding
    size          (B, T)
    """

    row: Int[Tensor, "N L"]
    column: Int[Tensor, "N L"]
    real: Bool[Tensor, "N L"]
    size: tuple[int, int]

    def unpack(self, packed: Tensor) -> Tensor:
        """(B, T, ...) -> (N, L, ...), one text per row; padding is undefined."""
        return packed[self.row, self.column]

    def repack(self, output: BaseModelOutput) -> BaseModelOutput:
        """The output of the texts as that of the rows; zero at padding and between two texts."""

        def states(apart: Tensor) -> Tensor:
            packed = apart.new_zeros(*self.size, apart.shape[-1])
            packed[self.row[self.real], self.column[self.real]] = apart[self.real]
            return packed

        def weights(apart: Tensor) -> Tensor:
            text, query, key = (self.real[:, :, None] & self.real[:, None]).nonzero(as_tuple=True)
            packed = apart.new_zeros(self.size[0], self.size[1], self.size[1], apart.shape[1])
            columns = self.column[text, query], self.column[text, key]
            packed[(self.row[text, query], *columns)] = apart[text, :, query, key]
            return packed.permute(0, 3, 1, 2)

        all_states, attentions = output.hidden_states, output.attentions
        return BaseModelOutput(
            last_hidden_state=states(output.last_hidden_state),
            hidden_states=None if all_states is None else tuple(map(states, all_states)),
            attentions=None if attentions is None else tuple(map(weights, attentions)),
        )


def packing(position_ids: Tensor | None, mask: Bool[Tensor, "B T"]) -> Packing | None:
    """The texts that the position_ids (B or 1, T) begin, or None if each row is one.

    They count 0, 1, 2, ... over the real tokens of every text; other numbers are an error, because a method
    counts tokens itself and would not read them.

    >>> packing(torch.tensor([[0, 1, 2, 0, 1]]), torch.ones(1, 5, dtype=torch.bool)).column.tolist()
    [[0, 1, 2], [3, 4, 4]]
    """
    if position_ids is None:
        return None
    at = position_ids.expand_as(mask)
    order = mask.cumsum(1) - 1  # of the real tokens of a row, from 0
    starts = mask & ((at == 0) | (order == 0))
    first = torch.where(starts, order, 0).cummax(1).values
    if bool((mask & (at != order - first)).any()):
        wrong, token = (mask & (at != order - first)).nonzero()[0].tolist()
        raise InputError(
            f"the position_ids of row {wrong} have {int(at[wrong, token])} at token {token}; they count 0, "
            "1, 2, ... over the real tokens of each text, and start again at 0 where another text begins. "
            "Leave them out."
        )
    if int(starts.sum(1).max()) < 2:
        return None
    text = starts.flatten().cumsum(0).view_as(mask) - 1
    row, column = mask.nonzero(as_tuple=True)
    number, place = text[row, column], (order - first)[row, column]
    shape = (int(starts.sum()), int(place.max()) + 1)
    last = torch.full(shape, int(mask.shape[1]) - 1, device=mask.device)
    rows = torch.zeros(shape, dtype=torch.long, device=mask.device).index_put((number, place), row)
    columns = last.index_put((number, place), column)
    real = torch.zeros(shape, dtype=torch.bool, device=mask.device)
    real[number, place] = True
    return Packing(rows, columns, real, (mask.shape[0], mask.shape[1]))
