"""Labelled text in, token ids and batches out.

In the order data flows: `read` a file into a `Table`; choose rows (`split`, `shots`, `repeated`); `encode`
texts as ids with a `tokenizer`; put rows into `batches` and `collate` each into tensors.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
