"""Change a pretrained model, and change it back: its class, the mark in its configuration, and what stands in
the way. `attach` and `lengthen` share this.

The class is the model's own, with another `forward`, so that it does not matter how a client calls it, and
another `save_pretrained`. The mark makes `from_pretrained` refuse a folder saved meanwhile.
"""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from vnait.shared.errors import InputError

MODEL_TYPE, OWN_TYPE = "vnait-attached", "vnait_model_type"  # in the config.json of a changed model
MARK = {
    "attached_by": "vnait",
    "why": "a positional method is in this model, and without vnait from_pretrained can't put it there",
    "how_to_load": "import vnait, then AutoModel.from_pretrained or another Auto class; or save it apart: "
    "vnait.pretrained.save_adapter and save_base, then load the base and load_adapter. A folder without "
    "vnait.json is of a model around the one that the method was attached to: attach to the whole model",
}


class Changed:
    """First parent of the classes made here, before the model's own class.

    plain   the model's own class
    made    how unpickling makes the class again: the function to call with `plain`, and its second argument
    """

    plain: Any
    made: tuple[Callable[[Any, Any], Any], Any]

    @classmethod
    def from_pretrained(cls, *args: Any, **options: Any) -> Any:
        return cls.plain.from_pretrained(*args, **options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """The class is made at run time, so pickle can't find it by its name."""
        state: Any = super().__reduce_ex__(protocol)[2:]
        return _empty, (self.plain, *self.made), *state


def _empty(plain: Any, make: Callable[[Any, Any], Any], argument: Any) -> Any:
    kind = make(plain, argument)
    return kind.__new__(kind)


def class_changed(parents: tuple[type, ...], plain: Any, made: Any, **members: Any) -> Any:
    """A subclass of a model's class under the same name."""
    # transformers reads module and name of the class to save the model and to choose its loss.
    named = {"plain": plain, "__module__": plain.__module__, "__qualname__": plain.__qualname__}
    return type(plain.__name__, (*parents, plain), {**named, "made": made, **members})


def refuse_push(options: dict[str, Any]) -> None:
    """Raise InputError for `save_pretrained(push_to_hub=True)`, which uploads before vnait has written."""
    if options.get("push_to_hub"):
        raise InputError("push_to_hub=True uploads a part of the folder; call model.push_to_hub(NAME).")


def enter_classes(model: nn.Module, owner: PreTrainedModel, make: Callable[[Any, bool], Any]) -> None:
    """Change the class of the owner and of every model around it, and mark their configurations.

    make   the class of a plain class; True for that of the owner

    A class, not a hook or a `forward` of the instance: hooks don't run when `forward` is called directly, and
    replicas of data parallelism share their instances' attributes.
    """
    for part in model.modules():
        if isinstance(part, PreTrainedModel) and owner in set(part.modules()):
            plain: Any = part.plain if isinstance(part, Changed) else type(part)  # of the other side
            _change_class(part, make(plain, part is owner))
            mark(part.config)


@functools.cache
def _class_of_part(plain: Any, parent_and_learned: tuple[type, bool]) -> Any:
    parent, learned = parent_and_learned
    made = (_class_of_part, parent_and_learned)
    return class_changed((Changed, parent), plain, made, learned=learned)


def give_parent(part: nn.Module, parent: type, *, learned: bool = False) -> None:
    """Put a parent before the class of a part of the model.

    learned   whether its `position_embeddings` are learned again, once the class is left
    """
    plain: Any = type(part)
    _change_class(part, _class_of_part(plain, (parent, learned)))


def leave_classes(model: nn.Module) -> None:
    """Undo `enter_classes` and `give_parent`."""
    for part in model.modules():
        if isinstance(part, Changed):
            learned = getattr(part, "learned", False)
            _change_class(part, part.plain)
            if isinstance(part, PreTrainedModel):
                unmark(part.config)
            elif learned:
                part.position_embeddings.requires_grad_()


def _change_class(part: Any, kind: Any) -> None:
    before = type(part).forward
    part.__class__ = kind
    for name, value in vars(part).items():
        if getattr(value, "__func__", None) is before:  # accelerate keeps the forward that it wraps
            vars(part)[name] = MethodType(kind.forward, part)


def remove_hooks(model: nn.Module, *hooks: Callable[..., Any]) -> None:
    """Take these hooks, before a forward or after it, out of all modules."""
    for part in model.modules():
        before = part._forward_pre_hooks, part._forward_pre_hooks_with_kwargs
        after = part._forward_hooks, part._forward_hooks_with_kwargs
        for registered, with_kwargs in (before, after):
            for key in [key for key, hook in registered.items() if hook in hooks]:
                del registered[key]
                with_kwargs.pop(key, None)


def mark(config: PreTrainedConfig) -> None:
    """Make `from_pretrained` refuse what is saved from now on."""
    config.quantization_config = MARK


def unmark(config: PreTrainedConfig) -> bool:
    """Remove the mark; return whether there was one."""
    was = marked(config)
    if was:
        del config.quantization_config
    return was


def marked(config: PreTrainedConfig) -> bool:
    """Whether the mark is there."""
    value = getattr(config, "quantization_config", None)
    return isinstance(value, dict) and value.get("attached_by") == MARK["attached_by"]


def write_type(folder: str | Path) -> None:
    """Give the saved model a type for `vnait` to load.

    Without `vnait`, the Auto classes don't know the type, and all others refuse the mark.
    """
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {"model_type": MODEL_TYPE, OWN_TYPE: config["model_type"]}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def check_free(model: nn.Module) -> None:
    """Neither an attached method, nor `lengthen`, nor peft's layers are in the model."""
    parts = list(model.modules())
    if any("vnait_longer" in vars(part) for part in parts):
        raise InputError(
            f"{type(model).__name__} reads past its limit by lengthen; call "
            "vnait.pretrained.shorten(model) first."
        )
    if any(isinstance(part, Changed) for part in parts):
        raise InputError(
            f"{type(model).__name__} has a method attached already; a model has exactly one: call "
            "vnait.detach(model) first."
        )
    if any(type(part).__module__.split(".")[0] == "peft" for part in parts):
        raise InputError(
            f"{type(model).__name__} has peft's layers already, and peft would not save what is attached "
            'now; attach first, then call get_peft_model with modules_to_save=["vnait"].'
        )


def check_weights(model: nn.Module) -> None:
    """Refuse quantized models, on which attaching is untested, and weights that are not here."""
    configs = [part.config for part in model.modules() if isinstance(part, PreTrainedModel)]
    declared = any(getattr(config, "quantization_config", None) and not marked(config) for config in configs)
    if declared or any(type(part).__module__.startswith("torch.ao.nn.quantized") for part in model.modules()):
        raise InputError("the model is quantized, which attach was never tried on; load it unquantized.")
    check_present(model, "attach")


def check_present(model: nn.Module, action: str) -> None:
    """Refuse weights that are not here, which an action needs."""
    if any(weight.is_meta for weight in model.parameters()):
        raise InputError(
            "weights of the model are on the device meta, as of an offloaded model; load the model whole, "
            f"{action}, and offload it then."
        )


def checkpoints(owner: PreTrainedModel) -> bool:
    """Whether the model trains with gradient checkpointing."""
    return owner.training and any(getattr(part, "gradient_checkpointing", False) for part in owner.modules())
