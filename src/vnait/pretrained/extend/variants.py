"""The arms: how long texts are read, from cutting them to extending the model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from vnait.pretrained.attach.attaching import attach, detach
from vnait.pretrained.extend.lengthening import READINGS, SourceKind, lengthen, shorten, site_of, source_of
from vnait.pretrained.extend.parts import Special, split
from vnait.pretrained.tokens import special_tokens
from vnait.shared.randomness import evaluating

Vectors = list[NDArray[np.float32]]  # per text: (V, D) of length 1, V = 1 but for windows apart
Encode = Callable[[Sequence[str]], Vectors]

CUT, MEAN, SUREST, WORDS, VNAIT = "cut", "windows-mean", "windows-surest", "bm25", "vnait"
FREE = (CUT, MEAN, SUREST)  # of the model as it is
ARMS = {
    CUT: "the first tokens, up to the limit",
    MEAN: READINGS["windows"].meaning + "; one vector per text",
    SUREST: "windows of the limit's length, one vector each; the best match decides",
    WORDS: "words, without the model (BM25; for labels, TF-IDF and logistic regression)",
    **{name: reading.meaning for name, reading in READINGS.items() if name != "windows"},
    VNAIT: "vnait attached, untrained: places compressed to end at the table's last row",
}
BATCH_TOKENS = 8192  # read together


def arms_of(source: SourceKind) -> tuple[str, ...]:
    """The arms that are for a source of position."""
    others = set(READINGS) - {name for name, reading in READINGS.items() if source in reading.sources}
    return tuple(name for name in ARMS if name not in others)


class Embedder:
    """A sentence-transformers model with the limit up to which it reads texts now.

    `to` is the longest text to be read, `source` where its positions come from.
    """

    def __init__(self, model: Any, *, limit: int | None, to: int) -> None:
        self.model, self.to = model, to
        self.body: Any = model[0].auto_model
        site = site_of(self.body)
        self.source = source_of(site)
        declared = int(model.max_seq_length or to)
        self.limit = declared if limit is None else limit

    @functools.cached_property
    def special(self) -> Special:
        """How many special tokens begin and end a text."""
        before, after = special_tokens(self.model.tokenizer)
        return len(before), len(after)

    @contextmanager
    def reading(self, arm: str) -> Iterator[Encode]:
        """The model while it reads by this arm; afterwards it is as it was."""
        before = self.model.max_seq_length
        self.model.max_seq_length = self.limit if arm == CUT else self.to
        try:
            if arm == SUREST:
                yield self._apart
            elif arm == CUT:
                yield self._whole
            else:
                self.extend(arm)
                yield self._whole
        finally:
            self.model.max_seq_length = before
            self.restore(arm)

    def extend(self, arm: str) -> None:
        """Change the model until `restore`."""
        if arm == VNAIT:
            attach(self.body, "vnait")
        else:
            reading = "windows" if arm == MEAN else arm
            lengthen(self.body, reading, limit=self.limit, special=self.special)

    def restore(self, arm: str) -> None:
        if hasattr(self.body, "vnait"):
            detach(self.body)
        elif arm not in (CUT, SUREST):
            shorten(self.body)

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (Q, D) of length 1, of texts within the limit."""
        return self._encoded("query", texts)

    def _whole(self, texts: Sequence[str]) -> Vectors:
        return list(self._encoded("document", texts)[:, None])

    def _encoded(self, kind: str, texts: Sequence[str]) -> NDArray[np.float32]:
        encode = getattr(self.model, f"encode_{kind}", self.model.encode)
        size = max(1, min(32, BATCH_TOKENS // self.model.max_seq_length))
        options = {"batch_size": size, "normalize_embeddings": True, "show_progress_bar": False}
        found: NDArray[np.float32] = encode(list(texts), **options)
        return found

    def _apart(self, texts: Sequence[str]) -> Vectors:
        """A vector per window."""
        tokenizer, prompt = self.model.tokenizer, self.model.prompts.get("document", "")
        found = []
        for text in texts:
            ids = tokenizer(prompt + text, truncation=True, max_length=self.to)["input_ids"]
            some = split(torch.tensor(ids), self.limit, self.special)
            rows = []
            for start in range(0, len(some), 32):
                part = tokenizer.pad({"input_ids": [one.tolist() for one in some[start : start + 32]]})
                features = {
                    name: torch.tensor(value, device=self.model.device) for name, value in part.items()
                }
                with evaluating(self.model):
                    rows.append(self.model(features)["sentence_embedding"])
            vectors = torch.nn.functional.normalize(torch.cat(rows).float(), dim=-1)
            found.append(vectors.cpu().numpy())
        return found


def similarities(queries: NDArray[np.float32], documents: Vectors) -> NDArray[np.float64]:
    """Cosines (Q, N), of a document its largest."""
    return np.stack([(queries @ one.T).max(-1) for one in documents], -1).astype(np.float64)


def bm25(queries: Sequence[str], documents: Sequence[str]) -> NDArray[np.float64]:
    """sum over a query's words of idf(w) f (k + 1) / (f + k (1 - b + b l / mean l)), (Q, N); f is how often
    w is in the document, l its words, k = 1.5, b = .75, idf(w) = log(1 + (N - n + .5) / (n + .5)).

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), section 3.4.

    >>> bm25(["green fox"], ["a green tree", "a red fox, a fox"]).argmax()
    np.int64(1)
    """
    counter = CountVectorizer(token_pattern=r"\w+")
    counts = counter.fit_transform(documents).toarray().astype(np.float64)
    lengths, holds = counts.sum(1, keepdims=True), (counts > 0).sum(0)
    inverse = np.log1p((len(documents) - holds + 0.5) / (holds + 0.5))
    weights = inverse * counts * 2.5 / (counts + 1.5 * (0.25 + 0.75 * lengths / lengths.mean()))
    return (counter.transform(queries).toarray() > 0) @ weights.T
