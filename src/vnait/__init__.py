"""Positional methods for Transformers, from three interchangeable parts.

    coordinates (where)  x  encoding (how it is represented)  x  inputs (where it joins the words)

Everything is imported when it is first used: a file that can't be read is refused before torch is loaded.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import lazy_loader
import wrapt

if TYPE_CHECKING:
    from vnait.comparison.compare import compare as compare
    from vnait.data import vectors as vectors
    from vnait.model import VnaitConfig as VnaitConfig
    from vnait.model import VnaitForCausalLM as VnaitForCausalLM
    from vnait.model import VnaitForMaskedLM as VnaitForMaskedLM
    from vnait.model import VnaitForSequenceClassification as VnaitForSequenceClassification
    from vnait.model import VnaitForTokenClassification as VnaitForTokenClassification
    from vnait.model import VnaitModel as VnaitModel
    from vnait.positions import METHODS as METHODS
    from vnait.positions import Injection as Injection
    from vnait.positions import Method as Method
    from vnait.positions import build as build
    from vnait.positions import conformance as conformance
    from vnait.pretrained.attach.attaching import attach as attach
    from vnait.pretrained.attach.attaching import detach as detach
    from vnait.pretrained.attach.auditing import audit as audit
    from vnait.pretrained.doctor import doctor as doctor
    from vnait.pretrained.extend import extend as extend
    from vnait.results.explanation import explain as explain
    from vnait.results.record import Record as Record
    from vnait.shared.errors import InputError as InputError
    from vnait.train.estimator import TextClassifier as TextClassifier
    from vnait.train.estimator import TextRegressor as TextRegressor
    from vnait.train.run import Run as Run

# The same names as above.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "comparison.compare": ["compare"],
        "data": ["vectors"],
        "model": [
            "VnaitConfig",
            "VnaitForCausalLM",
            "VnaitForMaskedLM",
            "VnaitForSequenceClassification",
            "VnaitForTokenClassification",
            "VnaitModel",
        ],
        "positions": ["METHODS", "Injection", "Method", "build", "conformance"],
        "pretrained.attach.attaching": ["attach", "detach"],
        "pretrained.attach.auditing": ["audit"],
        "pretrained.doctor": ["doctor"],
        "pretrained.extend": ["extend"],
        "results.explanation": ["explain"],
        "results.record": ["Record"],
        "shared.errors": ["InputError"],
        "train.estimator": ["TextClassifier", "TextRegressor"],
        "train.run": ["Run"],
    },
)


# What the modules below take from others, by module. These import one another, in an order that depends on
# which is imported first.
_NEEDED = {
    "transformers.modeling_layers": "GradientCheckpointingLayer",
    "transformers.modeling_utils": "PreTrainedModel",
    "transformers.models.auto.configuration_auto": "AutoConfig",
    "transformers.models.auto.auto_factory": "auto_class_update",
    "transformers.models.auto.modeling_auto": "AutoModel",
    "transformers.models.auto.tokenization_auto": "AutoTokenizer",
    "vnait.pretrained.changing": "unmark",
    "vnait.pretrained.loading": "auto_classes",
}


def _register(module: Any) -> None:
    """Register our classes once transformers' Auto classes are imported."""
    # Skip a partly imported module: the hook runs again when it is complete.
    if all(hasattr(sys.modules[name], part) for name, part in _NEEDED.items() if name in sys.modules):
        for name in ("vnait.model", "vnait.pretrained.reloading"):
            import_module(name)


for _name in _NEEDED:
    wrapt.register_post_import_hook(_register, _name)
