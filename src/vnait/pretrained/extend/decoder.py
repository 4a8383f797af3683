"""A language model past its limit: the perplexity of a text's last tokens, by one variant after another."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

from vnait.pretrained.attach.attaching import attach, detach
from vnait.pretrained.extend.finished import Finished
from vnait.pretrained.extend.lengthening import lengthen, shorten, site_of, source_of
from vnait.pretrained.extend.perplexity import Losses, Perplexities
from vnait.pretrained.extend.scoring import bm25, costs
from vnait.pretrained.extend.variants import (
    CAUSAL,
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
WINDOWS = 8  # of the limit, among which `bm25` chooses
HEADS = ("ForCausalLM", "LMHeadModel")  # ends of the names of transformers' language models
Callback = Callable[[int, int, str], None]


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

    def losses(self, variant: str, texts: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
        """Mean losses (in nats) of the blocks of each text's last tokens, (texts * BLOCKS,)."""
        with self.reading(variant):
            return np.concatenate([self._of_blocks(self._read(variant, text)) for text in texts])

    def _read(self, variant: str, text: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is read of a text."""
        if variant == LAST:
            return text[-self.limit :]
        return self._retrieved(text) if variant == WORDS else text

    def _retrieved(self, text: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last half of the limit, after windows from before it, which the words in front of the measured
        tokens find.
        """
        width = self.limit // WINDOWS
        rest, end = text[: -self.limit // 2], text[-self.limit // 2 :]
        windows = [rest[start : start + width] for start in range(len(rest) % width, len(rest), width)]
        query = end[: len(end) - self.targets][-width:]
        words = self.tokenizer.batch_decode([query if len(query) else rest[-width:], *windows])
        scores = bm25(words[:1], words[1:])[0]
        best = np.sort(np.argsort(-scores, kind="stable")[: (self.limit - len(end)) // width])
        return np.concatenate([*(windows[place] for place in best), end])

    def _of_blocks(self, text: NDArray[np.int64]) -> NDArray[np.float64]:
        ids = torch.tensor(text, device=self.model.device)[None]
        takes = inspect.signature(self.model.forward).parameters
        less = {"logits_to_keep": self.targets + 1} if "logits_to_keep" in takes else {}
        with evaluating(self.model):
            logits = self.model(input_ids=ids, use_cache=False, **less).logits[0, -self.targets - 1 : -1]
        each = torch.nn.functional.cross_entropy(logits.float(), ids[0, -self.targets :], reduction="none")
        blocks: NDArray[np.float64] = each.reshape(BLOCKS, -1).mean(-1).double().cpu().numpy()
        return blocks

    def save(self, variant: str, folder: Path) -> None:
        """Write the model as it reads by this variant."""
        with self.reading(variant), atomic_folder(folder) as draft:
            self.model.save_pretrained(draft)
            self.tokenizer.save_pretrained(draft)


def extend_decoder(
    source: str | Path,
    *,
    to: int,
    limit: int | None = None,
    variants: Sequence[str] = (),
    lengths: Sequence[int] = (),
    texts: int = 4,
    documents: Sequence[str] = (),
    results: str | Path | None = None,
    out: str | Path | None = None,
    save: str | None = None,
    callback: Callback | None = None,
) -> Perplexities:
    """`vnait.extend` of a language model; arguments as there."""
    _check_names([*variants, *([save] if save else [])], save)
    if out is not None:
        check_replaceable(out, (), "an extended model")
    with preserved_generators(), no_bars():
        language_model = LanguageModel.load(source, limit)
        if to <= language_model.limit:
            raise InputError(
                f"to={to} is not past the limit of {source}, {language_model.limit} tokens; give more."
            )
        chosen = variants or language_model.variants
        wanted = {*chosen, *([save] if save else [])}
        names = [name for name in DECODER_VARIANTS if name in wanted]
        read = _texts(language_model, documents, to, texts)
        counts = _lengths(lengths, language_model, to)
        finished = Finished(None if results is None else Path(results))
        report = _measured(language_model, names, counts, read, finished, callback)
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


def _texts(
    language_model: LanguageModel, documents: Sequence[str], to: int, count: int
) -> list[NDArray[np.int64]]:
    """Texts of `to` tokens, spread over the documents, or over the news of gensim's package."""
    if not documents:
        from gensim.test.utils import datapath

        with open(datapath("lee_background.cor"), encoding="utf-8") as file:
            documents = file.read().splitlines()
    ids = np.array(language_model.tokenizer("\n\n".join(documents), verbose=False)["input_ids"])
    if len(ids) < to:
        raise InputError(
            f"the documents have {len(ids)} tokens in all, and to={to}; give more documents, or a lower to."
        )
    count = max(1, min(count, len(ids) // to))  # that share no token
    return [ids[end - to : end] for end in np.linspace(to, len(ids), count).astype(int)]


def _measured(
    language_model: LanguageModel,
    variants: Sequence[str],
    lengths: Sequence[int],
    texts: Sequence[NDArray[np.int64]],
    finished: Finished,
    callback: Callback | None,
) -> Perplexities:
    """Every variant at every length; one that fails is left out with its reason."""
    facts = [fingerprint(language_model.name), language_model.limit, [text.tolist() for text in texts]]
    left_out: dict[str, str] = {}
    rows: list[Losses] = []
    within = [length for length in lengths if length <= language_model.limit]
    work = [(LAST, length) for length in within]  # which all variants read alike
    work += [(name, length) for length in lengths if length not in within for name in variants]
    for number, (variant, length) in enumerate(work):
        if callback is not None:
            callback(number, len(work), f"{variant}, {length:,} tokens")
        if variant in left_out:
            continue
        key = key_of(*facts, variant, length)
        if key not in finished.rows:
            try:
                ends = [text[-length:] for text in texts]
                losses, seconds, memory = costs(lambda: language_model.losses(variant, ends))  # noqa: B023
            except (InputError, RuntimeError, MemoryError) as error:
                left_out[variant] = first_line(error)
                continue
            facts_of_row = {"losses": losses.tolist(), "seconds": seconds / len(texts), "memory": memory}
            finished.add(key, variant=variant, length=length, **facts_of_row)
        row = finished.rows[key]
        rows.append(Losses(variant, length, tuple(row["losses"]), row["seconds"], row["memory"]))
    return Perplexities(
        model=language_model.name,
        limit=language_model.limit,
        targets=language_model.targets,
        texts=len(texts),
        rows=tuple(rows),
        left_out=left_out,
    )


def _saved(report: Perplexities, language_model: LanguageModel, out: Path, save: str | None) -> Perplexities:
    variant = save or report.advice.variant
    if variant in FREE_OF_DECODERS:
        return report.with_saved(str(out), None)
    language_model.save(variant, out)
    return report.with_saved(str(out), variant)
