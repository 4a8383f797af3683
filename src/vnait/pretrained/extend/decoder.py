"""A language model past its limit: the perplexity of a text's last tokens, by one variant after another."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForCausalLM

from vnait.positions.methods import CAUSAL
from vnait.pretrained.attach.attaching import attach, detach
from vnait.pretrained.extend.hidden import Hidden, Ids, hidden
from vnait.pretrained.extend.lengthening import lengthen, shorten, site_of, source_of
from vnait.pretrained.extend.perplexity import Losses, Perplexities
from vnait.pretrained.extend.request import Request
from vnait.pretrained.extend.scoring import bm25, costs
from vnait.pretrained.extend.tasks import Result, Task, check_tasks, news
from vnait.pretrained.extend.variants import (
    DECODER_VARIANTS,
    FREE_OF_DECODERS,
    LAST,
    ROTATED_BETTER,
    WORDS,
)
from vnait.pretrained.loading import GGUF, from_pretrained, tokenizer_from
from vnait.shared.errors import InputError, as_input_error, did_you_mean, first_line
from vnait.shared.files import atomic_folder, check_replaceable, fingerprint
from vnait.shared.keys import key_of
from vnait.shared.quiet import no_bars
from vnait.shared.randomness import evaluating, preserved_generators

TARGETS = 512  # tokens at the end of each text that are measured
BLOCKS = 8  # of them, whose losses are nearly independent
PERPLEXITY = "perplexity"
WINDOWS = 8  # of the limit, among which `bm25` chooses
HEADS = ("ForCausalLM", "LMHeadModel")  # ends of the names of transformers' language models
TEXTS = 4  # per length, by default


def is_language_model(source: Any) -> bool:
    """Whether this is a GGUF file, or the folder of a language model that is no embedder."""
    if not isinstance(source, str | Path):
        return False
    folder = Path(source).expanduser()
    if folder.suffix == GGUF:
        return True
    settings: Any = {}
    with suppress(OSError, ValueError):
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = settings.get("architectures") if isinstance(settings, dict) else None
    return not (folder / "modules.json").exists() and any(str(name).endswith(HEADS) for name in names or ())


@dataclass(frozen=True)
class LanguageModel:
    """A decoder with its tokenizer, and the tokens up to which it was trained to read."""

    name: str
    model: Any
    tokenizer: Any
    limit: int

    @classmethod
    def load(cls, source: str | Path, limit: int | None) -> LanguageModel:
        """`InputError` if it can't be loaded, or declares no limit and none was given."""
        tokenizer = tokenizer_from(source)
        before = f"{source} can't be loaded as a language model: "
        with no_bars(), as_input_error(Exception, before, ".", message=first_line):
            options = {} if Path(source).suffix == GGUF else {"dtype": "auto"}
            model = from_pretrained(AutoModelForCausalLM, source, **options).eval()
        site_of(model)
        declared: Any = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if limit is None and declared is None:
            raise InputError(f"{source} declares no limit; give limit=, the tokens that it was trained on.")
        return cls(str(source), model, tokenizer, declared if limit is None else limit)

    @cached_property
    def fingerprint(self) -> str:
        """Of its files."""
        return fingerprint(self.name)

    @property
    def targets(self) -> int:
        """Tokens at the end of a text whose loss is measured."""
        return min(TARGETS, self.limit // 2) // BLOCKS * BLOCKS

    @property
    def variants(self) -> tuple[str, ...]:
        """Those that are tried if none are named."""
        rotated = source_of(site_of(self.model)) == "rotation"
        return tuple(name for name in DECODER_VARIANTS if not (rotated and name in ROTATED_BETTER))

    @contextmanager
    def reading(self, variant: str) -> Iterator[None]:
        """The model while it reads by this variant; afterwards it is as it was."""
        try:
            if variant == CAUSAL:
                attach(self.model, CAUSAL)
            elif variant not in (LAST, WORDS):
                lengthen(self.model, variant, limit=self.limit)
            yield
        finally:
            if variant == CAUSAL:
                with suppress(InputError):  # which could not be attached
                    detach(self.model)
            else:
                shorten(self.model)

    def losses(self, variant: str, texts: Sequence[Ids]) -> NDArray[np.float64]:
        """Mean losses (in nats) of the blocks of each text's last tokens, (texts * BLOCKS,)."""
        with self.reading(variant):
            return np.concatenate([self._of_blocks(self._read(variant, text)) for text in texts])

    def finds(self, variant: str, texts: Sequence[Hidden]) -> NDArray[np.bool_]:
        """Per text, whether each token of the answer is the likeliest one."""
        with self.reading(variant):
            return np.array([self._answers(variant, text) for text in texts])

    def _answers(self, variant: str, text: Hidden) -> bool:
        query = text.ids[-text.opening - text.answer : -text.answer]
        read = self._read(variant, text.ids, query)
        return bool((self._logits(read, text.answer).argmax(-1).cpu().numpy() == read[-text.answer :]).all())

    def _read(self, variant: str, text: Ids, query: Ids | None = None) -> Ids:
        """What is read of a text; `query`: what `bm25` looks for."""
        if variant == LAST:
            return text[-self.limit :]
        return self._retrieved(text, query) if variant == WORDS else text

    def _retrieved(self, text: Ids, query: Ids | None) -> Ids:
        """The last half of the limit, after windows from before it, which the query's words find: by default
        those in front of the measured tokens.
        """
        width = self.limit // WINDOWS
        rest, end = text[: -self.limit // 2], text[-self.limit // 2 :]
        windows = [rest[start : start + width] for start in range(len(rest) % width, len(rest), width)]
        if query is None:
            query = end[: len(end) - self.targets][-width:]
        words = self.tokenizer.batch_decode([query if len(query) else rest[-width:], *windows])
        scores = bm25(words[:1], words[1:])[0]
        best = np.sort(np.argsort(-scores, kind="stable")[: (self.limit - len(end)) // width])
        return np.concatenate([*(windows[place] for place in best), end])

    def _of_blocks(self, text: Ids) -> NDArray[np.float64]:
        logits = self._logits(text, self.targets)
        ids = torch.tensor(text[-self.targets :], device=logits.device)
        each = torch.nn.functional.cross_entropy(logits.float(), ids, reduction="none")
        blocks: NDArray[np.float64] = each.reshape(BLOCKS, -1).mean(-1).double().cpu().numpy()
        return blocks

    def _logits(self, text: Ids, count: int) -> Float[Tensor, "count V"]:
        """From which the last tokens are predicted."""
        ids = torch.tensor(text, device=self.model.device)[None]
        takes = inspect.signature(self.model.forward).parameters
        less = {"logits_to_keep": count + 1} if "logits_to_keep" in takes else {}
        with evaluating(self.model):
            logits: Tensor = self.model(input_ids=ids, use_cache=False, **less).logits[0, -count - 1 : -1]
        return logits

    def save(self, variant: str, folder: Path) -> None:
        """Write the model as it reads by this variant."""
        with self.reading(variant), atomic_folder(folder) as draft:
            self.model.save_pretrained(draft)
            self.tokenizer.save_pretrained(draft)


def extend_decoder(source: str | Path, request: Request) -> Perplexities:
    """`vnait.extend` of a language model."""
    out, save, to = request.out, request.save, request.to
    if request.queries or request.labels:
        raise InputError("a language model is compared on documents alone; leave queries and labels out.")
    check_tasks(request.tasks)
    count = request.texts_per_length(TEXTS, least=1)
    _check_names([*request.variants, *([save] if save else [])], save)
    if out is not None:
        check_replaceable(out, (), "an extended model")
    with preserved_generators(), no_bars():
        language_model = LanguageModel.load(source, request.limit)
        if to <= language_model.limit:
            raise InputError(
                f"to={to} is not past the limit of {source}, {language_model.limit} tokens; give more."
            )
        chosen = request.variants or language_model.variants
        wanted = {*chosen, *([save] if save else [])}
        names = [name for name in DECODER_VARIANTS if name in wanted]
        texts = _texts(language_model, request.documents, to, count)
        lengths = _lengths(request.lengths, language_model, to)
        report = Measuring(language_model, names, lengths, request).report(texts, count)
        return report if out is None else _saved(report, language_model, Path(out), save)


def _check_names(names: Sequence[str], save: str | None) -> None:
    for name in names:
        if name not in DECODER_VARIANTS:
            raise InputError(
                f"there is no variant {name} of a language model; take one of {', '.join(DECODER_VARIANTS)}."
                f"{did_you_mean(name, DECODER_VARIANTS)}"
            )
    if save in FREE_OF_DECODERS:
        raise InputError(f"{save} is of the model as it is, so there is nothing to save; take an extension.")


def _lengths(lengths: Sequence[int], language_model: LanguageModel, to: int) -> list[int]:
    """Those that were asked for; else the limit, twice, four times ... and `to`."""
    doubled = [language_model.limit * 2**power for power in range(20)]
    chosen = sorted(set(lengths or [*(length for length in doubled if length < to), to]))
    if wrong := next((length for length in chosen if not language_model.targets < length <= to), None):
        raise InputError(
            f"a length of {wrong} is not possible; give more than {language_model.targets} tokens, which are "
            f"measured, and at most to={to}."
        )
    return chosen


def _texts(language_model: LanguageModel, documents: Sequence[str], to: int, count: int) -> list[Ids]:
    """Texts of `to` tokens, spread over the documents, or over the news of gensim's package."""
    documents = documents or news().splitlines()
    ids = np.array(language_model.tokenizer("\n\n".join(documents), verbose=False)["input_ids"])
    if len(ids) < to:
        raise InputError(
            f"the documents have {len(ids)} tokens in all, and to={to}; give more documents, or a lower to."
        )
    count = max(1, min(count, len(ids) // to))  # that share no token
    return [ids[end - to : end] for end in np.linspace(to, len(ids), count).astype(int)]


@dataclass(frozen=True)
class Measuring:
    """Every variant at every length; one that fails is left out with its reason. Texts within the limit are
    read by `last` alone, since all variants read them alike.
    """

    language_model: LanguageModel
    variants: Sequence[str]
    lengths: Sequence[int]
    request: Request
    left_out: dict[str, str] = field(default_factory=dict)

    def report(self, texts: Sequence[Ids], count: int) -> Perplexities:
        """Of the perplexity of texts, and of generated tasks with this many texts per length."""
        model, tasks = self.language_model, self.request.tasks
        made = {(name, length): self._made(name, length, count) for name in tasks for length in self.lengths}
        work = [
            (name, length, variant)
            for name in (PERPLEXITY, *tasks)
            for length in self.lengths
            if name == PERPLEXITY or made[name, length]
            for variant in ((LAST,) if length <= model.limit else self.variants)
        ]
        rows: list[Losses] = []
        results: list[Result] = []
        for number, (name, length, variant) in enumerate(work):
            self.request.report_progress(number, len(work), f"{name}, {variant}, {length:,} tokens")
            if name == PERPLEXITY:
                rows += self._losses(variant, [text[-length:] for text in texts])
            else:
                results += self._found(variant, *made[name, length])
        return Perplexities(
            model=model.name,
            limit=model.limit,
            targets=model.targets,
            texts=len(texts),
            rows=tuple(rows),
            results=tuple(results),
            left_out=self.left_out,
        )

    def _losses(self, variant: str, texts: Sequence[Ids]) -> Iterator[Losses]:
        row = self._row(variant, texts, lambda: self.language_model.losses(variant, texts))
        if row is not None:
            yield Losses(variant, len(texts[0]), tuple(row["values"]), row["seconds"], row["memory"])

    def _found(self, variant: str, task: Task, texts: Sequence[Hidden]) -> Iterator[Result]:
        ids = [text.ids for text in texts]
        row = self._row(variant, ids, lambda: self.language_model.finds(variant, texts))
        if row is not None:
            right = np.array(row["values"], dtype=bool)
            costs_of = {"seconds": row["seconds"], "memory": row["memory"]}
            yield Result(variant=variant, task=task, right=right, **costs_of)

    def _made(self, name: str, length: int, count: int) -> tuple[Task, list[Hidden]] | tuple[()]:
        """The texts of a task; nothing if they are too short for it, which is noted."""
        try:
            return hidden(name, self.language_model.tokenizer, length, count)
        except InputError as error:
            self.left_out[f"{name}, {length:,} tokens"] = str(error)
            return ()

    def _row(
        self, variant: str, texts: Sequence[Ids], measure: Callable[[], NDArray[Any]]
    ) -> dict[str, Any] | None:
        """A result, from an earlier run if there is one; None if the variant is left out."""
        model = self.language_model
        key = key_of(model.fingerprint, model.limit, [text.tolist() for text in texts], variant)
        if variant in self.left_out:
            return None
        if key not in self.request.finished.rows:
            try:
                values, seconds, memory = costs(measure)
            except (InputError, RuntimeError, MemoryError) as error:
                self.left_out[variant] = first_line(error)
                return None
            facts = {"values": values.tolist(), "seconds": seconds / len(texts), "memory": memory}
            self.request.finished.add(key, variant=variant, length=len(texts[0]), **facts)
        return self.request.finished.rows[key]


def _saved(report: Perplexities, language_model: LanguageModel, out: Path, save: str | None) -> Perplexities:
    variant = save or report.advice.variant
    if variant in FREE_OF_DECODERS:
        return report.with_saved(str(out), None)
    language_model.save(variant, out)
    return report.with_saved(str(out), variant)
