"""Let transformers' Auto classes load the folder that `save_pretrained` of an attached or lengthened model
writes.

Its `config.json` has a model type of our own, which they know once `vnait` is imported.
"""

import functools
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import cached_file

from vnait.pretrained.attach.files import SETTINGS, WEIGHTS
from vnait.pretrained.changing import MODEL_TYPE, OWN_TYPE, unmark
from vnait.pretrained.loading import auto_classes
from vnait.shared.errors import InputError
from vnait.shared.randomness import preserved_generators

OF_HUB = ("cache_dir", "force_download", "local_files_only", "revision", "token", "subfolder")
_ATTACHED = r"(^|\.)vnait\."  # weights that the plain model does not have


class AttachedConfig(PreTrainedConfig):
    """Read from such a folder, `from_dict` gives a configuration of the model's own type, of a class that the
    Auto classes load with its method.
    """

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        plain = CONFIG_MAPPING[config_dict[OWN_TYPE]]
        settings = {name: value for name, value in config_dict.items() if name != OWN_TYPE}
        return _attached_class(plain).from_dict({**settings, "model_type": plain.model_type}, **kwargs)


AutoConfig.register(AttachedConfig.model_type, AttachedConfig)


@functools.cache
def _attached_class(plain: type[PreTrainedConfig]) -> type[PreTrainedConfig]:
    """A subclass of a configuration, under which each Auto class finds a `_Loader`."""
    # The Auto classes of tokenizers look for the name.
    named = {"__module__": plain.__module__, "__qualname__": plain.__qualname__}
    kind = type(plain.__name__, (plain,), named)
    for auto, models in auto_classes(plain):
        more = _encoders(models[0]) if auto is AutoModel else []
        auto.register(kind, _Loader((*models, *more), plain), exist_ok=True)
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
    config: type[PreTrainedConfig]

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
        # Later: the Auto classes are registered before all of vnait can be imported.
        from vnait.pretrained.attach.saving import attach_from
        from vnait.pretrained.extend.lengthening import SETTINGS as LONGER
        from vnait.pretrained.extend.lengthening import lengthen

        config = deepcopy(config)
        config.__class__ = self.config
        for part in _with_parts(config):
            unmark(part)
        named = [model for model in self.models if model.__name__ in (config.architectures or ())]
        plain = (named or self.models)[0]
        ignored = [*(plain._keys_to_ignore_on_load_unexpected or ()), _ATTACHED]
        members = {"__module__": plain.__module__, "_keys_to_ignore_on_load_unexpected": ignored}
        quiet: Any = type(plain.__name__, (plain,), members)
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
