"""Positional methods for Transformers, from three interchangeable parts.

    coordinates (where)  x  encoding (how it is represented)  x  inputs (where it joins the words)

Everything is imported when it is first used: a file that can't be read is refused before torch is loaded.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import wrapt

from vnait.errors import InputError

if TYPE_CHECKING:
    from vnait import coordinates, encodings, inputs
    from vnait.comparison import compare
    from vnait.diagnosis import doctor
    from vnait.explanation import explain
    from vnait.extension import extend
    from vnait.injection import Injection
    from vnait.laws import conformance
    from vnait.method import Method
    from vnait.methods import METHODS, build
    from vnait.pretrained import attach, audit, detach

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


_HOMES = {
    "vnait.comparison": ("compare",),
    "vnait.diagnosis": ("doctor",),
    "vnait.estimator": ("TextClassifier", "TextRegressor"),
    "vnait.explanation": ("explain",),
    "vnait.extension": ("extend",),
    "vnait.injection": ("Injection",),
    "vnait.laws": ("conformance",),
    "vnait.method": ("Method",),
    "vnait.methods": ("METHODS", "build"),
    "vnait.model": tuple(name for name in __all__ if name.startswith("Vnait")),
    "vnait.pretrained": ("attach", "audit", "detach"),
    "vnait.record": ("Record",),
    "vnait.run": ("Run",),
}


def __getattr__(name: str) -> Any:
    if name in ("coordinates", "encodings", "inputs"):
        return import_module(f"vnait.{name}")
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'vnait' has no attribute {name!r}")
    value = getattr(import_module(home), name)
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
    # A module that is half imported must not be used, and calls again when it is whole.
    if all(hasattr(sys.modules[name], part) for name, part in _NEEDED.items() if name in sys.modules):
        for name in ("vnait.model", "vnait.attached_config"):
            import_module(name)


for _name in _NEEDED:
    wrapt.register_post_import_hook(_register, _name)
