"""What a model sees of one text: each token's coordinate and gap, and the active method."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vnait import text as texts
from vnait.errors import InputError
from vnait.injection import Injection
from vnait.method import Method
from vnait.methods import METHODS, parameters
from vnait.model import VnaitForSequenceClassification
from vnait.predict import Fitted

PLACES = {
    "added": "joins the semantic vectors in the input layer",
    "turn": "rotates queries and keys",
    "stretch": "stretches queries and keys",
    "bias": "is added to the attention scores",
    "distance": "is added to the attention scores",
    "scale": "multiplies the attention scores",
}


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """tokens, their coordinates on the main axis and the gaps before them; the answer; the method, where it enters, its size."""

    tokens: list[str]
    known: list[bool]
    coordinates: list[float]
    gaps: list[float]
    label: str
    probability: float
    method: str
    formula: str
    enters: list[str]
    parameters: int


@torch.no_grad()
def explain(fitted: Fitted, text: str) -> Explanation:
    """Explain one text; it is cut where the model cuts it."""
    if not isinstance(fitted.model, VnaitForSequenceClassification):
        raise InputError(
            "this model was fine-tuned from a pretrained base, which explain can't look into; ask vnait.audit."
        )
    model = fitted.model.model.eval()
    ids = texts.encode(fitted.tokenizer, [text], max_length=model.config.max_length)
    vectors, mask = model.semantics(torch.tensor(ids), None, None)
    told = model.method(vectors, mask)
    line = told.at[0, :, 0].tolist()
    probabilities = fitted.probabilities([text])[0]
    best = int(probabilities.argmax())
    words = texts.words([text], fitted.tokenizer.init_kwargs["tokenization"])[0][: len(line)]
    unknown = fitted.tokenizer.unk_token_id
    name = model.config.method
    return Explanation(
        tokens=words or [fitted.tokenizer.unk_token],
        known=[number != unknown for number in ids[0]],
        coordinates=line,
        gaps=[now - before for before, now in zip([_origin(line), *line], line, strict=False)],
        label=fitted.classes[best],
        probability=float(probabilities[best]),
        method=name,
        formula=METHODS[name].formula if name in METHODS else "",
        enters=entering(told.injection, model.method),
        parameters=parameters(model.method),
    )


def entering(injection: Injection, method: Method) -> list[str]:
    """Where the active method enters, in words.

    >>> entering(Injection(scale=torch.ones(1, 1)), Method(coordinates=torch.nn.Identity(), encoding=torch.nn.Identity()))
    ['multiplies the attention scores']
    """
    places = dict.fromkeys(words for slot, words in PLACES.items() if getattr(injection, slot) is not None)
    return list(places) or ["tells nothing: the model sees a bag of words"]


def _origin(line: list[float]) -> float:
    """What the first gap is counted from: 0 for a span, the first index for an index."""
    return min(0.0, line[0])
