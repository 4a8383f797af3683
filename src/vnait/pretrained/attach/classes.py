"""The class of a model that is changed: its own, with another `forward`, so that it does not matter how a
client calls it, and another `save_pretrained`. Here, of a model with an attached method.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from vnait.pretrained.attach.attached import with_positions
from vnait.pretrained.attach.saving import attached_settings, mark, marked, unmark, write_attached
from vnait.pretrained.external_positions import parent_of
from vnait.pretrained.images import WithoutPosition
from vnait.pretrained.layers import AlibiAtPlaces, reading
from vnait.shared.errors import InputError


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


def refuse_push(options: dict[str, Any]) -> None:
    """Raise InputError for `save_pretrained(push_to_hub=True)`, which uploads before vnait has written."""
    if options.get("push_to_hub"):
        raise InputError("push_to_hub=True uploads a part of the folder; call model.push_to_hub(NAME).")


def class_changed(parents: tuple[type, ...], plain: Any, made: Any, **own: Any) -> Any:
    """A subclass of a model's class under the same name."""
    # transformers reads module and name of the class to save the model and to choose its loss.
    named = {"plain": plain, "__module__": plain.__module__, "__qualname__": plain.__qualname__}
    return type(plain.__name__, (*parents, plain), {**named, "made": made, **own})


class _WithMethod(Changed):
    """Of a model with a method in it."""

    def save_pretrained(
        self: Any,
        save_directory: str | Path,
        is_main_process: bool = True,
        state_dict: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if getattr(self, "_hf_peft_config_loaded", False):
            raise InputError(
                "transformers saves only the adapters of model.add_adapter, and the attached method would be "
                'lost; train with peft.get_peft_model and modules_to_save=["vnait"] instead.'
            )
        settings = attached_settings(self) if marked(self.config) else None  # without: in `save_base`
        weights = (
            self.state_dict() if state_dict is None else dict(state_dict)
        )  # transformers empties its own
        refuse_push(options)
        self.plain.save_pretrained(self, save_directory, is_main_process, state_dict, **options)
        if settings is not None and is_main_process:
            write_attached(save_directory, settings, weights)

    def resize_position_embeddings(self, *args: Any, **options: Any) -> None:
        raise InputError(
            "a method is attached, and reads texts longer than the table as it is; detach it before resizing."
        )


def _empty(plain: Any, make: Callable[[Any, Any], Any], given: Any) -> Any:
    kind = make(plain, given)
    return kind.__new__(kind)


@functools.cache
def _class_with_method(plain: Any, reads: bool) -> Any:
    """`reads`: of an owner, which reads ids or vectors; its forward is the plain one with positions."""
    made = (_class_with_method, reads)
    if not reads:
        return class_changed((_WithMethod,), plain, made)
    alibi = (AlibiAtPlaces,) if hasattr(plain, "build_alibi_tensor") else ()

    @functools.wraps(plain.forward)  # clients read its signature
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        inputs = with_positions(self, args, kwargs) if hasattr(self, "vnait") else None
        if inputs is None:
            return plain.forward(self, *args, **kwargs)
        with reading():
            return plain.forward(self, **inputs)

    return class_changed((_WithMethod, *alibi), plain, made, forward=forward)


@functools.cache
def _class_without_position(plain: Any, learned: bool) -> Any:
    """`learned`: whether the table is, once the class is left."""
    made = (_class_without_position, learned)
    return class_changed((Changed, WithoutPosition), plain, made, learned=learned)


@functools.cache
def _class_given_position(plain: Any, parent: Any) -> Any:
    return class_changed((Changed, parent), plain, (_class_given_position, parent))


def give_position(attention: nn.Module) -> None:
    """Change the class of an attention module that computes position itself."""
    parent = parent_of(attention)
    plain: Any = type(attention)
    if parent is not None:
        _change_class(attention, _class_given_position(plain, parent))


def silence_patches(part: Any) -> None:
    """Change the class of the part of `Patches.path`."""
    table = part.position_embeddings
    plain: Any = type(part)
    _change_class(part, _class_without_position(plain, table.requires_grad))
    table.requires_grad_(False)


def enter_classes(
    model: nn.Module,
    owner: PreTrainedModel,
    make: Callable[[Any, bool], Any] = _class_with_method,
) -> None:
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


def leave_classes(model: nn.Module) -> None:
    """Undo `enter_classes`."""
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
