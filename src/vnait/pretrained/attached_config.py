"""The type of configuration that `save_pretrained` of an attached model writes, by which transformers' Auto
classes load its folder.
"""

from typing import Any

from transformers import AutoConfig, PreTrainedConfig


class AttachedConfig(PreTrainedConfig):
    """Read from such a folder, `from_dict` gives a configuration of the model's own type."""

    model_type = "vnait-attached"  # `MODEL_TYPE` of vnait.pretrained.attach.saving

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        from vnait.pretrained.reloading import config_of  # later: it needs more of transformers

        return config_of(config_dict, **kwargs)


AutoConfig.register(AttachedConfig.model_type, AttachedConfig)
