"""Where is each token, and how should a Transformer be told? Positional methods from three interchangeable parts.

    coordinates (where)  x  encoding (how it is told)  x  inputs (where it joins the words)

`import vnait` imports torch alone; what needs transformers or scikit-learn is imported when it is first used.
"""

import sys
from importlib import import_module
from typing import Any

import wrapt

from vnait import coordinates, encodings, inputs
from vnait.errors import InputError
from vnait.injection import Injection
from vnait.methods import METHODS, Method, build

_LATER = {
    "Record": "vnait.record",
    "Run": "vnait.train",
    "TextClassifier": "vnait.estimator",
    "VnaitConfig": "vnait.model",
    "VnaitForMaskedLM": "vnait.model",
    "VnaitForSequenceClassification": "vnait.model",
    "VnaitForTokenClassification": "vnait.model",
    "VnaitModel": "vnait.model",
    "compare": "vnait.comparison",
    "explain": "vnait.explanation",
}

__all__ = [
    "METHODS",
    "Injection",
    "InputError",
    "Method",
    "Record",
    "Run",
    "TextClassifier",
    "VnaitConfig",
    "VnaitForMaskedLM",
    "VnaitForSequenceClassification",
    "VnaitForTokenClassification",
    "VnaitModel",
    "build",
    "compare",
    "coordinates",
    "encodings",
    "explain",
    "inputs",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'vnait' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATER])


@wrapt.when_imported("transformers.models.auto.configuration_auto")
@wrapt.when_imported("transformers.modeling_utils")
def _register(module: Any) -> None:
    """Once transformers' Auto classes are there, let them know ours; before, nobody can ask for them."""
    # modeling_utils imports configuration_auto. While it does, our models have no base yet; it calls again when it is whole.
    base = sys.modules.get("transformers.modeling_utils")
    if base is None or hasattr(base, "PreTrainedModel"):
        import_module("vnait.model")
