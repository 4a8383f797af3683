"""Positional methods for Transformers, from three interchangeable parts.

    coordinates (where)  x  encoding (how it is represented)  x  inputs (where it joins the words)

Everything is imported when it is first used: a file that can't be read is refused before torch is loaded.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import wrapt

from vnait.shared.errors import InputError

if TYPE_CHECKING:
    from vnait import attach, audit, detach
    from vnait.comparison.compare import compare
    from vnait.positions import coordinates, encodings, inputs
    from vnait.positions.conformance_suite import conformance
    from vnait.positions.injection import Injection
    from vnait.positions.method import Method
    from vnait.positions.methods import METHODS, build
    from vnait.pretrained.doctor import doctor
    from vnait.pretrained.extend import extend
    from vnait.results.explanation import explain

__all__ = [
    "METHODS",
    "Injection",
    "InputError",
    "Method",
    "Record",
    "Run",
    "TextClassifier",
    "TextRegressor",
    "VnaitConfig",
    "VnaitForCausalLM",
    "VnaitForMaskedLM",
    "VnaitForSequenceClassification",
    "VnaitForTokenClassification",
    "VnaitModel",
    "attach",
    "audit",
    "build",
    "compare",
    "conformance",
    "coordinates",
    "detach",
    "doctor",
    "encodings",
    "explain",
    "extend",
    "inputs",
]


_HOMES = {name: "vnait.model" for name in __all__ if name.startswith("Vnait")} | {
    "METHODS": "vnait.positions.methods",
    "Injection": "vnait.positions.injection",
    "Method": "vnait.positions.method",
    "Record": "vnait.results.record",
    "Run": "vnait.train.run",
    "TextClassifier": "vnait.train.estimator",
    "TextRegressor": "vnait.train.estimator",
    "attach": "vnait.pretrained",
    "audit": "vnait.pretrained",
    "build": "vnait.positions.methods",
    "compare": "vnait.comparison.compare",
    "conformance": "vnait.positions.conformance_suite",
    "detach": "vnait.pretrained",
    "doctor": "vnait.pretrained.doctor",
    "explain": "vnait.results.explanation",
    "extend": "vnait.pretrained.extend",
}


def __getattr__(name: str) -> Any:
    if name in ("coordinates", "data", "encodings", "inputs"):
        return import_module(f"vnait.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'vnait' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# What vnait.model takes from transformers, by module. These import one another, in an order that depends on
# which is imported first.
_NEEDED = {
    "transformers.modeling_layers": "GradientCheckpointingLayer",
    "transformers.modeling_utils": "PreTrainedModel",
    "transformers.models.auto.configuration_auto": "AutoConfig",
    "transformers.models.auto.auto_factory": "auto_class_update",
    "transformers.models.auto.modeling_auto": "AutoModel",
}


def _register(module: Any) -> None:
    """Register our classes once transformers' Auto classes are imported."""
    # Skip a partly imported module: the hook runs again when it is complete.
    if all(hasattr(sys.modules[name], part) for name, part in _NEEDED.items() if name in sys.modules):
        for name in ("vnait.model", "vnait.pretrained.attached_config"):
            import_module(name)


for _name in _NEEDED:
    wrapt.register_post_import_hook(_register, _name)
