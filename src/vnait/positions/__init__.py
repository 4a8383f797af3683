"""Where each token is, and how a model reads it: every part of every method, by one import.

    from vnait.positions import Span, Rotary, Method, METHODS, conformance

Coordinates (where) x encodings (how) -> an `Injection` -> the input layer and the attention. `Method`
joins one part of each; `METHODS` has the named ones.
"""

import lazy_loader

from vnait.positions import coordinates, encodings, inputs

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "coordinates": coordinates.__all__,
        "encodings": encodings.__all__,
        "inputs": inputs.__all__,
        "building": ["build"],
        "conformance_suite": ["conformance"],
        "injection": ["Injection", "LogLength", "PairBias", "ScoreMod"],
        "method": ["Method"],
        "methods": ["METHODS"],
        "recipe": ["Recipe", "Size"],
    },
)
