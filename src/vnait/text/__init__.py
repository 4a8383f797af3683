"""Labelled text in, token ids and batches out.

In the order data flows: `read` a file into a `Table`; choose rows (`split`, `shots`, `repeated`); learn a `tokenizer` and `encode`
texts as ids; put them into `batches` and `collate` each into tensors.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vnait.text.tables import Table, read

if TYPE_CHECKING:
    from vnait.text.batches import batches, collate
    from vnait.text.splits import repeated, shots, split
    from vnait.text.summary import QUANTILES, summary
    from vnait.text.tokens import TOKENIZATIONS, encode, report_unknown, tokenizer, unknown_share, words

# Reading needs no torch: the rest waits until it is used.
_LATER = {
    "QUANTILES": "vnait.text.summary",
    "TOKENIZATIONS": "vnait.text.tokens",
    "batches": "vnait.text.batches",
    "collate": "vnait.text.batches",
    "encode": "vnait.text.tokens",
    "repeated": "vnait.text.splits",
    "report_unknown": "vnait.text.tokens",
    "shots": "vnait.text.splits",
    "split": "vnait.text.splits",
    "summary": "vnait.text.summary",
    "tokenizer": "vnait.text.tokens",
    "unknown_share": "vnait.text.tokens",
    "words": "vnait.text.tokens",
}

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


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'vnait.text' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value
