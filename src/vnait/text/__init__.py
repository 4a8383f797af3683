"""Labelled text in, token ids and batches out.

In the order data flows: `read` a file into a `Table`; choose rows (`split`, `shots`, `repeated`); learn a `tokenizer` and `encode`
texts as ids; put them into `batches` and `collate` each into tensors.
"""

from vnait.text.batches import batches, collate
from vnait.text.splits import repeated, shots, split
from vnait.text.summary import QUANTILES, summary
from vnait.text.tables import Table, read
from vnait.text.tokens import TOKENIZATIONS, encode, report_unknown, tokenizer, unknown_share, words

__all__ = [
    "QUANTILES",
    "TOKENIZATIONS",
    "Table",
    "batches",
    "collate",
    "encode",
    "read",
    "repeated",
    "report_unknown",
    "shots",
    "split",
    "summary",
    "tokenizer",
    "unknown_share",
    "words",
]
