"""Labelled text in, token ids and batches out.

In the order data flows: `read` a file into a `Table`; choose rows (`split`, `shots`, `repeated`); `encode`
texts as ids with a `tokenizer`; put rows into `batches` and `collate` each into tensors.
"""

from vnait.data.pairs import Pair
from vnait.data.rows import batches, collate, repeated, shots, split, warn_of_repeats
from vnait.data.summary import QUANTILES, summary
from vnait.data.tables import Table, read, stream
from vnait.data.tokens import (
    NO_LIMIT,
    TOKENIZATIONS,
    TextCounts,
    encode,
    tokenizer,
    unknown_share,
    words,
)

__all__ = [
    "NO_LIMIT",
    "QUANTILES",
    "TOKENIZATIONS",
    "Pair",
    "Table",
    "TextCounts",
    "batches",
    "collate",
    "encode",
    "read",
    "repeated",
    "shots",
    "split",
    "stream",
    "summary",
    "tokenizer",
    "unknown_share",
    "warn_of_repeats",
    "words",
]
