"""Positional methods for Transformers, from three interchangeable parts.

    coordinates (where)  x  encoding (how it is represented)  x  inputs (where it joins the words)

Everything is imported when it is first used: a file that can't be read is refused before torch is loaded.
"""

import sys
from importlib import import_module
from typing import Any

import lazy_loader
import wrapt

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


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
