"""What a model sees of one text: each token's coordinate, gap and say in the bag of words, the method, and what attention makes of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vnait import text as texts
from vnait.attention import head_kind, score_terms, shares
from vnait.backbone import Block, Encoder
from vnait.errors import InputError
from vnait.injection import Injection
from vnait.inputs import cosine
from vnait.method import Method, Told
from vnait.methods import METHODS, parameters
from vnait.model import VnaitForSequenceClassification
from vnait.predict import Fitted, logits_of
from vnait.text.conllu import Tree

Arc = tuple[int, int, str]
PLACES = {
    "added": "joins the semantic vectors in the input layer",
    "turn": "rotates queries and keys",
    "stretch": "stretches queries and keys",
    "bias": "is added to the attention scores",
    "distance": "is added to the attention scores",
    "scale": "multiplies the attention scores",
}


@dataclass(frozen=True)
class Head:
    """What kind of attention a head has: one of `attention.KINDS`, or "first token"; and the distance of a band, key - query."""

    kind: str
    distance: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.distance:+d}" if self.distance else self.kind


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """tokens, their coordinates on the main axis and the gaps before them; the answer; the method, where it enters, its size.

    logit        the answer's logit less the mean over the labels, in two parts: what the Transformer says and what the bag of words says
    says         each token's part of what the bag of words says; the rest of that is the bag's bias
    similarity   rho = cos(e_i, s_i) of each token in [-1, 1]; None where no vector is added
    heads        of each layer, its heads' kinds
    shares       of each term of the first layer's scores, a number a head: its sum of squares around the rows' means, over that of all
                 terms (`attention.score_terms`; position is the added vector s, content is all else that the first layer reads)
    arcs         of a parsed sentence: the token that a head begins with, that of its dependent, and the relation
    phrases      of a parsed sentence: the first and the last token below a word, and the word's relation; the sentence itself left out
    attention    (layers, H, T, T), rows are queries; bias, turn and scale are in it
    terms        what the shares are of: (H, T, T) each, and their sum are the first layer's scores
    """

    tokens: list[str]
    known: list[bool]
    coordinates: list[float]
    gaps: list[float]
    label: str
    probability: float
    logit: dict[str, float]
    says: list[float]
    method: str
    formula: str
    enters: list[str]
    parameters: int
    similarity: list[float] | None
    heads: list[list[Head]]
    shares: dict[str, list[float]]
    arcs: list[Arc]
    phrases: list[Arc]
    attention: NDArray[np.float32] = field(repr=False, compare=False)
    terms: dict[str, NDArray[np.float32]] = field(repr=False, compare=False)

    def facts(self) -> dict[str, Any]:
        """All but what is of pairs of tokens, as JSON can hold it."""
        return {name: value for name, value in asdict(self).items() if name not in ("attention", "terms")}


@torch.no_grad()
def explain(fitted: Fitted, given: str | Tree) -> Explanation:
    """Explain one text, or a parsed sentence with its tree; it is cut where the model cuts it."""
    text = given if isinstance(given, str) else " ".join(given.words)
    if not text.strip():
        raise InputError("the text is empty; give some words to explain.")
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        raise InputError("the text is not UTF-8; give it in UTF-8.")
    if not isinstance(fitted.model, VnaitForSequenceClassification):
        raise InputError(
            "this model was fine-tuned from a pretrained base, which explain can't look into; ask vnait.audit."
        )
    model = fitted.model.model.eval()
    ids = texts.encode(fitted.tokenizer, [text], max_length=model.config.max_length)
    vectors, mask = model.semantics(torch.tensor(ids), None, None)
    told = model.method(vectors, mask)
    line = told.at[0, :, 0].tolist()
    probabilities = torch.softmax(logits_of(fitted.model, ids).double(), -1)[0]
    best = int(probabilities.argmax())
    logit, says = _parts(fitted.model, torch.tensor(ids), mask, best)
    tokenization = fitted.tokenizer.init_kwargs["tokenization"]
    words = texts.words([text], tokenization)[0][: len(line)]
    arcs, phrases = ([], []) if isinstance(given, str) else _syntax(given, tokenization, len(words))
    unknown = fitted.tokenizer.unk_token_id
    name = model.config.method
    added = told.injection.added
    terms = _terms(model.encoder, told, added)
    states = model.encoder.trace(told.x, told.injection, mask)
    weights = torch.cat(model.encoder.weights(states, told.injection, mask))
    return Explanation(
        tokens=words or [fitted.tokenizer.unk_token],
        known=[number != unknown for number in ids[0]],
        coordinates=line,
        gaps=[now - before for before, now in zip([_origin(line), *line], line, strict=False)],
        label=fitted.classes[best],
        probability=float(probabilities[best]),
        logit=logit,
        says=says,
        method=name,
        formula=METHODS[name].formula if name in METHODS else "",
        enters=entering(told.injection, model.method),
        parameters=parameters(model.method),
        similarity=None if added is None else cosine(vectors, added)[0].tolist(),
        heads=[[_head(head) for head in layer] for layer in weights],
        shares={term: found.tolist() for term, found in shares(terms).items()},
        arcs=arcs,
        phrases=phrases,
        attention=weights.numpy(),
        terms={term: scores.numpy() for term, scores in terms.items()},
    )


def _parts(
    model: VnaitForSequenceClassification, ids: Tensor, mask: Tensor, label: int
) -> tuple[dict[str, float], list[float]]:
    whole, each = model.eval()(ids, mask).logits[0], model.bag.each(ids, mask)[0]
    words = each.sum(0) + model.bag.bias

    def of(logits: Tensor) -> Tensor:
        return logits[..., label] - logits.mean(-1)

    return {"Transformer": float(of(whole - words)), "bag of words": float(of(words))}, of(each).tolist()


def _syntax(tree: Tree, tokenization: str, count: int) -> tuple[list[Arc], list[Arc]]:
    """Arcs and phrases on the first `count` tokens, of which a word may have several, or none."""
    sizes = [len(tokens) for tokens in texts.words(tree.words, tokenization)]
    first = np.cumsum([0, *sizes]).tolist()
    arcs = [
        (first[head], first[word], relation)
        for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True))
        if head >= 0 and sizes[head] and sizes[word]
    ]
    phrases = [
        (first[start], first[end + 1] - 1, relation)
        for (start, end), head, relation in zip(tree.spans, tree.heads, tree.relations, strict=True)
        if head >= 0 and end > start and first[end + 1] > first[start]
    ]
    return [arc for arc in arcs if max(arc[:2]) < count], [phrase for phrase in phrases if phrase[1] < count]


def _terms(encoder: Encoder, told: Told, added: Tensor | None) -> dict[str, Tensor]:
    place = torch.zeros_like(told.x) if added is None else added.to(told.x.dtype)
    return score_terms(cast(Block, encoder.blocks[0]), (told.x - place)[0], place[0], told.injection)


def _head(weights: Tensor) -> Head:
    kind, distance = head_kind(weights)
    return Head("first token" if kind == "long-range" and weights[:, 0].mean() >= 0.5 else kind, distance)


def entering(injection: Injection, method: Method) -> list[str]:
    """Where the active method enters, in words.

    >>> from vnait.coordinates import Index
    >>> entering(Injection(scale=torch.ones(1, 1)), Method(coordinates=Index(), encoding=torch.nn.Identity()))
    ['multiplies the attention scores']
    """
    places = dict.fromkeys(words for slot, words in PLACES.items() if getattr(injection, slot) is not None)
    return list(places) or ["tells nothing: the Transformer sees words without their order"]


def _origin(line: list[float]) -> float:
    """What the first gap is counted from: 0 for a span, the first index for an index."""
    return min(0.0, line[0])
