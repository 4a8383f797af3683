"""Models of peft with a soft prompt, as the doctor's rules run them."""

from __future__ import annotations

from functools import wraps
from typing import Any

from torch import nn


class Prompted(nn.Module):
    """A model of peft whose outputs are those of the text alone: a prompt's tokens are left out.

    What it lacks it takes from the model inside.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.tuned = model

        @wraps(model.get_base_model().forward)
        def forward(*args: Any, **inputs: Any) -> Any:
            return without_prompt(model(*args, **inputs), inputs)

        self.forward = forward

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("tuned"), name)

    @property
    def base_model(self) -> Any:
        """Itself: what is inside lacks the prompt."""
        return self


def without_prompt(output: Any, inputs: dict[str, Any]) -> Any:
    """The outputs of a text alone; a decoder's are not those of the prompt, which is before the encoder's."""
    text = inputs.get("input_ids") if inputs.get("inputs_embeds") is None else inputs["inputs_embeds"]
    name = next(iter(output))
    if text is not None and output[name].ndim == 3 and "decoder_input_ids" not in inputs:
        output[name] = output[name][:, -text.shape[1] :]
    return output
