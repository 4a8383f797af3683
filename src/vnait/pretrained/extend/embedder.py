"""An embedder of sentence-transformers that reads long texts by one variant after another."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from vnait.positions.methods import CAUSAL
from vnait.pretrained.attach.attaching import attach, detach
from vnait.pretrained.attach.saving import checksum
from vnait.pretrained.changing import OWN_TYPE
from vnait.pretrained.extend.lengthening import SETTINGS, lengthen, shorten, site_of, source_of
from vnait.pretrained.extend.parts import Special, split
from vnait.pretrained.extend.scoring import Vectors, by_words, costs, labelled, ranked_first, similarities
from vnait.pretrained.extend.tasks import NEEDLES, Result, Task
from vnait.pretrained.extend.variants import CUT, MEAN, SUREST, VNAIT, WORDS
from vnait.pretrained.loading import from_pretrained
from vnait.pretrained.tokens import special_tokens
from vnait.shared.errors import InputError, as_input_error, extra, first_line
from vnait.shared.files import atomic_folder, check_replaceable, fingerprint, home
from vnait.shared.quiet import no_bars
from vnait.shared.randomness import evaluating

Encode = Callable[[Sequence[str]], Vectors]
BATCH_TOKENS = 8192  # read together
WINDOWS = 32  # read together


class Embedder:
    """A sentence-transformers model with the limit up to which it reads texts now.

    `to` is the longest text to be read, `source` where its positions come from, `name` the folder or name it
    was loaded from, if it was.
    """

    def __init__(self, model: Any, *, limit: int | None, to: int, name: str | None = None) -> None:
        self.model, self.to, self.name = model, to, name
        self.body: Any = model[0].auto_model
        self.source = source_of(site_of(self.body))
        self.limit = int(model.max_seq_length or to) if limit is None else limit

    @classmethod
    def load(cls, model: Any, limit: int | None, to: int) -> tuple[Embedder, str]:
        """The embedder of an object, a folder or a name, and how it is called; `InputError` if it can't be
        extended.
        """
        loaded, name = _loaded(model)
        if not isinstance(getattr(loaded[0], "auto_model", None), PreTrainedModel):
            raise InputError(
                f"{name} has no Transformer as its first part, whose positions could be extended."
            )
        body: Any = loaded[0].auto_model
        if hasattr(body, "vnait") or hasattr(body.config, SETTINGS):
            raise InputError(f"{name} is extended already; give the model that it was made from.")
        embedder = cls(loaded.eval(), limit=limit, to=to, name=None if loaded is model else name)
        if embedder.limit <= sum(embedder.special) + 1:
            raise InputError(
                f"limit={embedder.limit} is too little: {name} adds {sum(embedder.special)} special tokens "
                "to each text; give more."
            )
        if to <= embedder.limit:
            raise InputError(f"to={to} is not past the limit of {name}, {embedder.limit} tokens; give more.")
        return embedder, name

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the files that it was loaded from; of an object, of its weights."""
        if self.name is not None:
            return fingerprint(self.name)
        return checksum([self.model])

    @functools.cached_property
    def special(self) -> Special:
        """How many special tokens begin and end a text."""
        before, after = special_tokens(self.model.tokenizer)
        return len(before), len(after)

    @contextmanager
    def reading(self, variant: str) -> Iterator[Encode]:
        """The model while it reads by this variant; afterwards it is as it was."""
        length = self.limit if variant == CUT else self.to
        with self._changed(variant, length):
            yield self._apart if variant == SUREST else self._whole

    @contextmanager
    def _changed(self, variant: str, length: int) -> Iterator[None]:
        before, self.model.max_seq_length = self.model.max_seq_length, length
        try:
            if variant == VNAIT:
                attach(self.body, CAUSAL if site_of(self.body).causal else VNAIT)
            elif variant not in (CUT, SUREST):
                reading = "windows" if variant == MEAN else variant
                lengthen(self.body, reading, limit=self.limit, special=self.special)
            yield
        finally:
            self.model.max_seq_length = before
            if hasattr(self.body, "vnait"):
                detach(self.body)
            else:
                shorten(self.body)  # which leaves a model alone that was not lengthened

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (Q, D) of length 1, of texts within the limit."""
        return self._encoded("query", texts)

    def _whole(self, texts: Sequence[str]) -> Vectors:
        return list(self._encoded("document", texts)[:, None])

    def _encoded(self, kind: str, texts: Sequence[str]) -> NDArray[np.float32]:
        encode = getattr(self.model, f"encode_{kind}", self.model.encode)
        size = max(1, min(32, BATCH_TOKENS // self.model.max_seq_length))
        options = {"batch_size": size, "normalize_embeddings": True, "show_progress_bar": False}
        vectors: NDArray[np.float32] = encode(list(texts), **options)
        return vectors

    def _apart(self, texts: Sequence[str]) -> Vectors:
        """A vector per window."""
        tokenizer, prompt = self.model.tokenizer, self.model.prompts.get("document", "")
        vectors = []
        for text in texts:
            ids = tokenizer(prompt + text, truncation=True, max_length=self.to)["input_ids"]
            windows = [window.tolist() for window in split(torch.tensor(ids), self.limit, self.special)]
            rows = []
            for start in range(0, len(windows), WINDOWS):
                part = tokenizer.pad({"input_ids": windows[start : start + WINDOWS]})
                features = {
                    name: torch.tensor(value, device=self.model.device) for name, value in part.items()
                }
                with evaluating(self.model):
                    rows.append(self.model(features)["sentence_embedding"])
            unit = torch.nn.functional.normalize(torch.cat(rows).float(), dim=-1)
            vectors.append(unit.cpu().numpy())
        return vectors

    def measure(self, variant: str, task: Task) -> Result:
        """A variant on a task; the time and memory are those of reading the documents."""
        if variant == WORDS:
            right, seconds, memory = costs(lambda: by_words(task))
        else:
            queries = self.queries(task.queries) if task.queries else None
            with self.reading(variant) as encode:
                vectors, seconds, memory = costs(lambda: encode(task.texts))
            if queries is None:
                right = labelled(vectors, task)
            else:
                right = ranked_first(similarities(queries, vectors))
        return Result(variant=variant, task=task, right=right, seconds=seconds / len(right), memory=memory)

    def change_within(self, variant: str) -> float:
        """The largest change of the vectors of texts of many lengths within the limit."""
        room = self.limit // 2
        words = " ".join(fact for fact, _ in NEEDLES).split()
        texts = [" ".join(words[: max(1, room * part // 8)]) for part in range(1, 9)]
        vectors = []
        for name in (CUT, variant):
            with self.reading(name) as encode:  # text by text: batches of other sizes round otherwise
                vectors.append(np.concatenate([encode([text])[0] for text in texts]))
        return float(np.abs(vectors[1] - vectors[0]).max())

    def save(self, variant: str, folder: Path) -> None:
        """Write the model as it reads by this variant, for sentence-transformers."""
        with self._changed(variant, self.to), atomic_folder(folder) as draft:
            self.model.save_pretrained(str(draft), create_model_card=False)
            settings = draft / "sentence_bert_config.json"
            # Without it, sentence-transformers lowers the length to the model's max_position_embeddings.
            longer = {**json.loads(settings.read_text(encoding="utf-8")), "max_seq_length": self.to}
            settings.write_text(json.dumps(longer, indent=4) + "\n", encoding="utf-8")


def _loaded(model: Any) -> tuple[Any, str]:
    """A SentenceTransformer, and its class, folder or name."""
    with extra("embedders"):
        from sentence_transformers import SentenceTransformer
    if isinstance(model, SentenceTransformer):
        return model, type(model).__name__
    if not isinstance(model, str | Path):
        raise InputError(
            f"extend was given a {type(model).__name__}; give a SentenceTransformer, or a folder or name "
            "that it loads."
        )
    before = f"{model} can't be loaded by sentence-transformers: "
    with no_bars(), as_input_error(Exception, before, ".", message=first_line):
        kind = SimpleNamespace(from_pretrained=SentenceTransformer)  # checked as any folder
        return from_pretrained(kind, model), str(model)


def check_folder(out: str | Path) -> None:
    """Refuse a folder with anything but an older extended model, which saving would replace."""
    known = ("*.json", "*.safetensors", "*.txt", "*.model", "README.md", "[0-9]_*", "[0-9][0-9]_*")
    check_replaceable(out, known, "an extended model")
    folder, settings = Path(home(out)), {}
    with suppress(OSError, ValueError):
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    noted = isinstance(settings, dict) and OWN_TYPE in settings
    ours = noted and (folder / "modules.json").is_file()
    if folder.is_dir() and any(folder.iterdir()) and not ours:
        raise InputError(
            f"{out} is not a model that extend has written, and saving one would replace it; choose a new "
            "name."
        )
