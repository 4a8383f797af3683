"""Where each token is, and how a model reads it: every part of every method, by one import.

    from vnait.positions import Span, Rotary, Method, METHODS, conformance

Coordinates (where) x encodings (how) -> an `Injection` -> the input layer and the attention. `Method`
joins one part of each; `METHODS` has the named ones.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
