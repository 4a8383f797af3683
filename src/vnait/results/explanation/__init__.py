"""What a model computes for one text: per token its coordinate, its gap and what it adds to the logit; the
method; the attention of every head.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from vnait import data as texts
from vnait.data.tasks import CLASSIFICATION, check_class, check_task
from vnait.model import VnaitForSequenceClassification
from vnait.model.backbone import Block
from vnait.positions.building import parameters
from vnait.positions.coordinates import Saturating
from vnait.positions.injection import Injection
from vnait.positions.inputs import cosine
from vnait.positions.method import Method, described
from vnait.positions.methods import METHODS
from vnait.pretrained.attach.attached import Attached
from vnait.pretrained.attach.saving import read_by_method
from vnait.results.explanation.attention import head_kind, score_terms, shares
from vnait.results.explanation.attribution import Attribution, attribute
from vnait.results.fitted import Fitted
from vnait.shared.errors import InputError, MissingExtra, has_surrogate

SLOT_EFFECTS = {
    "added": "joins the semantic vectors in the input layer",
    "rotary": "rotates queries and keys",
    "stretch": "stretches queries and keys",
    "bias": "is added to the attention scores",
    "distance": "is added to the attention scores",
    "scale": "multiplies the attention scores",
    "score_mod": "changes the attention scores in every layer, by its queries and keys",
}


@dataclass(frozen=True)
class Head:
    """The kind of an attention head: one of `attention.HEAD_KINDS`, or "first token"; distance: key - query
    of a band, else 0.
    """

    kind: str
    distance: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.distance:+d}" if self.distance else self.kind


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The tokens of a text with their coordinates and gaps, why a class is the answer or is not, and how the
    method enters.

    coordinates       on the main axis
    gaps              the distance of each token from the one before it; where the coordinate saturates, as in
                      vnait-causal, that of R, whose gaps are learned and 1 at first
    control           the gaps of the same training with shuffled labels, if it ran
    answer            the class with the highest probability
    label             the class that is explained, by default the answer;  probability: of this class
    logit             of this class, minus the mean over the classes, in two parts: Transformer, and the
                      linear part by its name, bag of words or one-hot words
    learns_gaps       whether the method's coordinates have learned parameters
    attribution       what each token adds to the logit, the sum of these parts;  constant: what is left
                      without words (`attribution.attribute`). Both None without captum
    bag_contribution  what each token adds to the linear part; the rest of that part is its bias. None of a
                      fine-tuned base, which has no linear part and no `shares` and `terms`
    similarity        rho = cos(e_i, s_i) per token, in [-1, 1]; None if no vector is added
    heads             the kind of each head, per layer
    shares            per term of the first layer's scores and per head: its sum of squares around the rows'
                      means, over that of all terms (`attention.score_terms`; position is the added vector s,
                      content is everything else that the first layer reads)
    attention         (layers, H, T, T), rows are queries; with bias, rotation and scale
    terms             (H, T, T) each; their sum is the first layer's scores
    """

    tokens: list[str]
    known: list[bool]
    coordinates: list[float]
    gaps: list[float]
    answer: str
    label: str
    probability: float
    logit: dict[str, float]
    attribution: list[float] | None
    constant: float | None
    bag_contribution: list[float] | None
    method: str
    formula: str
    enters: list[str]
    parameters: int
    learns_gaps: bool
    similarity: list[float] | None
    heads: list[list[Head]]
    shares: dict[str, list[float]]
    attention: NDArray[np.float32] = field(repr=False, compare=False)
    terms: dict[str, NDArray[np.float32]] = field(repr=False, compare=False)
    control: list[float] | None = None

    @property
    def gaps_are_equal(self) -> bool:
        """Whether a method that can give tokens different gaps gives them equal ones here, to 1 %."""
        gaps = np.array(self.gaps[1:])
        return self.learns_gaps and len(gaps) > 1 and bool(np.ptp(gaps) <= 0.01 * gaps.mean())

    def facts(self) -> dict[str, Any]:
        """Everything except `attention` and `terms`, for JSON."""
        return {name: value for name, value in asdict(self).items() if name not in ("attention", "terms")}


@torch.no_grad()
def explain(fitted: Fitted, text: str, *, label: str | None = None) -> Explanation:
    """Explain one text: why its class is `label`, by default the answer, or is not. Long texts are cut as in
    prediction.

    fitted   a fitted `TextClassifier`, or the Transformer in it, `fitted_`
    """
    fitted = getattr(fitted, "fitted_", fitted)
    if not text.strip():
        raise InputError("the text is empty; give some words to explain.")
    if has_surrogate(text):
        raise InputError("the text is not UTF-8; give it in UTF-8.")
    check_explained(fitted)
    if label is not None:
        check_class(label, fitted.classes)
    if not isinstance(fitted.model, VnaitForSequenceClassification):
        return _of_base(fitted, text, label)
    classifier = fitted.model.eval()
    model, name = classifier.model, classifier.config.method
    ids = torch.tensor(fitted.ids([text]))
    vectors, mask = model.semantics(ids, None, None)
    x, injection, at = model.method(vectors, mask)
    output = classifier(ids, output_attentions=True)
    attention = torch.cat(output.attentions)

    probabilities = torch.softmax(output.logits[0].double(), -1)
    answer = int(probabilities.argmax())
    explained = answer if label is None else fitted.classes.index(label)
    contributions = classifier.bag.each(ids, mask)[0]
    attribution = _attribution(fitted, ids, explained, contributions)

    position = torch.zeros_like(x) if injection.added is None else injection.added.to(x.dtype)
    block = cast(Block, model.encoder.blocks[0])
    terms = score_terms(block, (x - position)[0], position[0], injection)

    line = at[0, :, 0].tolist()
    tokenization = fitted.tokenizer.init_kwargs["tokenization"]
    words = texts.words([text], tokenization)[0][: len(line)]
    return Explanation(
        tokens=words or [fitted.tokenizer.unk_token],
        known=(ids[0] != fitted.tokenizer.unk_token_id).tolist(),
        coordinates=line,
        gaps=_gaps(model.method, vectors, mask, line),
        answer=fitted.classes[answer],
        label=fitted.classes[explained],
        probability=float(probabilities[explained]),
        logit=_logit_parts(
            output.logits[0], contributions.sum(0) + classifier.bag.bias, explained, classifier.bag.part
        ),
        attribution=attribution.added,
        constant=attribution.constant,
        bag_contribution=(contributions[:, explained] - contributions.mean(-1)).tolist(),
        method=name,
        formula=METHODS[name].formula if name in METHODS else "",
        enters=where_it_enters(injection),
        parameters=parameters(model.method),
        learns_gaps=parameters(model.method.coordinates) > 0,
        similarity=None if injection.added is None else cosine(vectors, injection.added)[0].tolist(),
        heads=[[_head(weights) for weights in layer] for layer in attention],
        shares={term: share.tolist() for term, share in shares(terms).items()},
        attention=attention.numpy(),
        terms={term: scores.numpy() for term, scores in terms.items()},
    )


def _of_base(fitted: Fitted, text: str, label: str | None) -> Explanation:
    """Of a fine-tuned base with an attached method: there is no linear part, and its layers are its own."""
    model, tokenizer = fitted.model.eval(), fitted.tokenizer
    owner: Any = read_by_method(model, "explain")
    attached: Attached = owner.vnait
    ids = torch.tensor(fitted.ids([text]))
    mask = torch.ones_like(ids)
    vectors = owner.get_input_embeddings()(ids).float() / attached.scale
    _, injection, at = attached.method(vectors, mask.bool())
    name = attached.arguments["method"] or described(attached.method)
    if injection.added is None or injection.bias is not None or injection.rotary is not None:
        raise InputError(
            f"{name} enters the base's attention, which then gives no weights to show; explain reads "
            "attached methods that only add vectors, such as vnait."
        )
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")  # sdpa gives no weights
    try:
        output = model(ids, attention_mask=mask, output_attentions=True)
    finally:
        model.set_attn_implementation(implementation)
    attention = torch.cat(output.attentions).float()
    probabilities, line = torch.softmax(output.logits[0].double(), -1), at[0, :, 0].tolist()
    answer = int(probabilities.argmax())
    explained = answer if label is None else fitted.classes.index(label)
    attribution = _attribution(fitted, ids, explained, None)
    gated = [] if attached.gate is None else ["joins through a gate, beside the base's own positions"]
    return Explanation(
        tokens=[tokenizer.decode([word]).strip() or "_" for word in ids[0].tolist()],
        known=[word != tokenizer.unk_token_id for word in ids[0].tolist()],
        coordinates=line,
        gaps=_gaps(attached.method, vectors, mask.bool(), line),
        answer=fitted.classes[answer],
        label=fitted.classes[explained],
        probability=float(probabilities[explained]),
        logit={"Transformer": float(output.logits[0, explained] - output.logits[0].mean())},
        attribution=attribution.added,
        constant=attribution.constant,
        bag_contribution=None,
        method=name,
        formula=METHODS[name].formula if name in METHODS else "",
        enters=where_it_enters(injection) + gated,
        parameters=parameters(attached),
        learns_gaps=parameters(attached.method.coordinates) > 0,
        similarity=cosine(vectors, injection.added)[0].tolist(),
        heads=[[_head(weights) for weights in layer] for layer in attention],
        shares={},
        attention=attention.numpy(),
        terms={},
    )


def check_explained(fitted: Fitted) -> None:
    """Raise InputError if it is no Transformer, reads pairs, or answers with numbers or several labels."""
    if not isinstance(fitted, Fitted):
        raise InputError(
            "explain takes a fitted TextClassifier with a Transformer; fit or load one, or call the method "
            "explain of a simple model."
        )
    check_task(fitted.task, CLASSIFICATION)
    if fitted.pairs:
        raise InputError("the model reads pairs of texts, and explain shows one; use `vnait predict`.")


def _gaps(method: Method, vectors: torch.Tensor, mask: torch.Tensor, line: list[float]) -> list[float]:
    """The gaps of a text's coordinates; of R if they saturate, since S shrinks by its formula."""
    running = next((part for part in method.coordinates.modules() if isinstance(part, Saturating)), None)
    if running is not None:
        line = running.sums(running.gaps(vectors, mask), mask)[0].tolist()
    # The first gap starts at 0 for a span, at the first index for an index.
    return np.diff(line, prepend=min(0.0, line[0])).tolist()


def _attribution(fitted: Fitted, ids: torch.Tensor, explained: int, bag: torch.Tensor | None) -> Attribution:
    try:
        return attribute(fitted.model, fitted.tokenizer, ids, explained, bag)
    except MissingExtra:
        return Attribution(None, None)


def _logit_parts(logits: torch.Tensor, bag: torch.Tensor, explained: int, name: str) -> dict[str, float]:
    """The logit of a class minus the mean over the classes, in two parts: without and of the linear part."""
    parts = {"Transformer": logits - bag, name: bag}
    return {name: float(part[explained] - part.mean()) for name, part in parts.items()}


def _head(weights: torch.Tensor) -> Head:
    kind, distance = head_kind(weights)
    return Head("first token" if kind == "long-range" and weights[:, 0].mean() >= 0.5 else kind, distance)


def where_it_enters(injection: Injection) -> list[str]:
    """Where a method enters the Transformer, in words.

    >>> where_it_enters(Injection(scale=torch.ones(1, 1)))
    ['multiplies the attention scores']
    """
    effects = dict.fromkeys(
        words for slot, words in SLOT_EFFECTS.items() if getattr(injection, slot) is not None
    )
    return list(effects) or ["adds no position: the Transformer sees words without their order"]
