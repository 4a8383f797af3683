"""Let transformers' Auto classes load the folder that `save_pretrained` of an attached or lengthened model
writes.

Its `config.json` has a model type of our own, which they know once `vnait` is imported
(vnait.pretrained.attached_config).
"""

import functools
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import cached_file

from vnait.pretrained.attach.adapters import attach_from
from vnait.pretrained.attach.saving import OWN_TYPE, SETTINGS, WEIGHTS, unmark
from vnait.pretrained.extend.lengthening import SETTINGS as LONGER
from vnait.pretrained.extend.lengthening import lengthen
from vnait.pretrained.loading import auto_classes
from vnait.shared.errors import InputError
from vnait.shared.randomness import preserved_generators

OF_HUB = ("cache_dir", "force_download", "local_files_only", "revision", "token", "subfolder")
_ATTACHED = r"(^|\.)vnait\."  # weights that the plain model does not have


def config_of(settings: dict[str, Any], **kwargs: Any) -> Any:
    """The configuration of the model's own type, of a class that the Auto classes load with its method."""
    own = CONFIG_MAPPING[settings[OWN_TYPE]]
    settings = {name: value for name, value in settings.items() if name != OWN_TYPE}
    return _attached_class(own).from_dict({**settings, "model_type": own.model_type}, **kwargs)


@functools.cache
def _attached_class(own: type[PreTrainedConfig]) -> type[PreTrainedConfig]:
    """A subclass of a configuration, under which each Auto class finds a `_Loader`."""
    # The Auto classes of tokenizers look for the name.
    kind = type(own.__name__, (own,), {"__module__": own.__module__, "__qualname__": own.__qualname__})
    for auto, models in auto_classes(own):
        more = _encoders(models[0]) if auto is AutoModel else []
        auto.register(kind, _Loader((*models, *more), own), exist_ok=True)
    return kind


def _encoders(model: type[PreTrainedModel]) -> list[type[PreTrainedModel]]:
    """Classes of an encoder-decoder's encoder alone, such as T5EncoderModel, which no Auto class has."""
    parts = vars(sys.modules[model.__module__])
    return [part for name, part in parts.items() if name.endswith("EncoderModel") and isinstance(part, type)]


def _with_parts(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """A configuration and those of its parts, such as a text model beside one of images."""
    yield config
    for name in config.sub_configs:
        if isinstance(part := getattr(config, name, None), PreTrainedConfig):
            yield from _with_parts(part)


@dataclass(frozen=True)
class _Loader:
    """In place of a model's class: `from_pretrained` loads the plain model and changes it as it was."""

    models: tuple[type[PreTrainedModel], ...]
    own: type[PreTrainedConfig]

    @property
    def __name__(self) -> str:
        """Pipelines list the names of all models of a task."""
        return self.models[0].__name__

    def _from_config(self, config: PreTrainedConfig, **kwargs: Any) -> Any:
        raise InputError(
            f"the configuration is of a {config.model_type} with an attached method, whose weights "
            "are not in the configuration; call from_pretrained with the model's folder."
        )

    def from_pretrained(self, folder: Any, *args: Any, config: PreTrainedConfig, **kwargs: Any) -> Any:
        config = deepcopy(config)
        config.__class__ = self.own
        for part in _with_parts(config):
            unmark(part)
        named = [model for model in self.models if model.__name__ in (config.architectures or ())]
        plain = (named or self.models)[0]
        ignored = [*(plain._keys_to_ignore_on_load_unexpected or ()), _ATTACHED]
        own = {"__module__": plain.__module__, "_keys_to_ignore_on_load_unexpected": ignored}
        quiet: Any = type(plain.__name__, (plain,), own)
        loaded = quiet.from_pretrained(folder, *args, config=config, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.__class__ = plain
        for part in _with_parts(model.config):
            if settings := getattr(part, LONGER, None):
                lengthen(model, **settings)
                return loaded
        hub = {name: kwargs[name] for name in OF_HUB if name in kwargs}
        files = [cached_file(folder, name, **hub) for name in (SETTINGS, WEIGHTS)]
        with preserved_generators():  # loading draws no random numbers
            attach_from(model, Path(files[0]).parent)
        return loaded
