"""`extend`: try every arm on every task, recommend one, and save it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from vnait.pretrained.attach.saving import OWN_TYPE
from vnait.pretrained.extend.lengthening import SETTINGS as LENGTHENED
from vnait.pretrained.extend.measuring import Result, measure
from vnait.pretrained.extend.report import Report
from vnait.pretrained.extend.tasks import GENERATED, MAX_TEXTS, NEEDLES, Task, own
from vnait.pretrained.extend.variants import ARMS, CUT, MEAN, SUREST, WORDS, Embedder, arms_of
from vnait.pretrained.loading import from_pretrained
from vnait.shared.errors import InputError, as_input_error, did_you_mean, extra, first_line
from vnait.shared.files import atomic_folder, check_replaceable
from vnait.shared.quiet import no_bars
from vnait.shared.randomness import preserved_generators

SHORTEST = 256
UNSAVED = (CUT, WORDS)


def extend(
    model: Any,
    *,
    to: int = 4096,
    limit: int | None = None,
    arms: Sequence[str] = (),
    tasks: Sequence[str] = tuple(GENERATED),
    lengths: Sequence[int] = (),
    texts: int = 20,
    documents: Sequence[str] = (),
    queries: Sequence[str] = (),
    labels: Sequence[str] = (),
    out: str | Path | None = None,
    save: str | None = None,
    callback: Callable[[int, int, str], None] | None = None,
) -> Report:
    """Compare ways to read texts past an embedder's limit, untrained, with those that cost nothing.

    Args:
        model: a SentenceTransformer, or a folder or name that it loads; it is left as it was
        to: the longest text, in tokens
        limit: tokens that the model reads as before, bit for bit; None: its `max_seq_length`
        arms: names in `vnait.pretrained.extend.ARMS`; all that are for the model if there are none
        tasks: of "passkey" and "needle", which are generated; () for documents alone
        lengths: of generated texts; 256, 512 ... up to `to` if there are none
        texts: generated per length, up to 30
        documents: your own, with a query or a label each
        out: a folder for the recommended arm, which sentence-transformers loads after `import vnait`
        save: another arm to be saved there
        callback: called with (measured, all, what)

    Raises:
        InputError: an unknown name, a model that can't be extended, or a folder with other files.

    Needs sentence-transformers: `pip install 'vnait[embedders]'`.
    """
    if out is not None:
        _check_folder(out)
    embedder, name = _embedder(model, limit, to)
    chosen = _arms(arms, save, embedder)
    with preserved_generators(), no_bars():
        work = _tasks(embedder, tasks, lengths, texts, documents, queries, labels)
        results = _measured(embedder, chosen, work, callback)
        report = Report(
            model=name,
            limit=embedder.limit,
            to=to,
            results=results,
            within={arm: _within(embedder, arm) for arm in chosen if arm not in UNSAVED},
        )
        if out is None:
            return report
        return _saved(report, embedder, Path(out), save)


def _measured(
    embedder: Embedder,
    arms: Sequence[str],
    tasks: Sequence[Task],
    callback: Callable[[int, int, str], None] | None,
) -> tuple[Result, ...]:
    results: list[Result] = []
    for task in tasks:
        for arm in arms:
            if callback is not None:
                what = f"{task.name}, {max(task.lengths):,}, {arm}"
                callback(len(results), len(tasks) * len(arms), what)
            results.append(measure(embedder, arm, task))
    return tuple(results)


def _embedder(model: Any, limit: int | None, to: int) -> tuple[Embedder, str]:
    with extra("embedders"):
        from sentence_transformers import SentenceTransformer
    if isinstance(model, SentenceTransformer):
        loaded, name = model, type(model).__name__
    elif isinstance(model, str | Path):
        before = f"{model} can't be loaded by sentence-transformers: "
        with no_bars(), as_input_error(Exception, before, ".", message=first_line):
            kind = SimpleNamespace(from_pretrained=SentenceTransformer)  # checked as any folder
            loaded, name = from_pretrained(kind, model), str(model)
    else:
        raise InputError(
            f"extend was given a {type(model).__name__}; give a SentenceTransformer, or a folder or name "
            "that it loads."
        )
    if not isinstance(getattr(loaded[0], "auto_model", None), PreTrainedModel):
        raise InputError(f"{name} has no Transformer as its first part, whose positions could be extended.")
    body: Any = loaded[0].auto_model
    if hasattr(body, "vnait") or hasattr(body.config, LENGTHENED):
        raise InputError(f"{name} is extended already; give the model that it was made from.")
    embedder = Embedder(loaded.eval(), limit=limit, to=to)
    if embedder.limit <= sum(embedder.special) + 1:
        raise InputError(
            f"limit={embedder.limit} is too little: {name} adds {sum(embedder.special)} special tokens to "
            "each text; give more."
        )
    if to <= embedder.limit:
        raise InputError(f"to={to} is not past the limit of {name}, {embedder.limit} tokens; give more.")
    return embedder, name


def _arms(arms: Sequence[str], save: str | None, embedder: Embedder) -> tuple[str, ...]:
    possible = arms_of(embedder.source)
    for name in (*arms, *([save] if save else [])):
        if name not in ARMS:
            raise InputError(
                f"there is no arm {name}; take one of {', '.join(ARMS)}.{did_you_mean(name, ARMS)}"
            )
        if name not in possible:
            raise InputError(
                f"{name} is not for this model, whose positions come from "
                f"{embedder.source if embedder.source != 'other' else 'neither table nor rotation'}; take "
                f"{', '.join(possible)}."
            )
    if save in (*UNSAVED, SUREST):
        raise InputError(f"{save} is not in a model, so it can't be saved; take {MEAN} or an extension.")
    wanted = set(arms) | ({save} if save else set()) if arms else set(possible)
    return tuple(arm for arm in ARMS if arm in wanted)


def _tasks(
    embedder: Embedder,
    names: Sequence[str],
    lengths: Sequence[int],
    texts: int,
    documents: Sequence[str],
    queries: Sequence[str],
    labels: Sequence[str],
) -> list[Task]:
    if unknown := next((name for name in names if name not in GENERATED), None):
        raise InputError(
            f"there is no task {unknown}; take {' or '.join(GENERATED)}, or documents of your own."
        )
    if not 2 <= texts <= MAX_TEXTS:
        raise InputError(f"texts={texts} is not possible; give 2 to {MAX_TEXTS} per length.")
    if bool(queries) == bool(labels) and (documents or queries):
        raise InputError("documents need a query each or a label each, and not both.")
    tokenizer = embedder.model.tokenizer
    if not lengths:
        lengths = [SHORTEST * 2**power for power in range(20) if SHORTEST * 2**power < embedder.to]
        lengths = [*lengths, embedder.to]
    if longest := next((length for length in lengths if length > embedder.to), None):
        raise InputError(f"a length of {longest} is more than to={embedder.to}; give to={longest}.")
    made = [GENERATED[name](tokenizer, length, texts) for length in lengths for name in names]
    if documents:
        made.append(own(tokenizer, documents, limit=embedder.limit, queries=queries, labels=labels))
    if not made:
        raise InputError("there is nothing to try; give a task, or documents of your own.")
    return made


def _within(embedder: Embedder, arm: str) -> float:
    """The largest change of the vectors of texts of many lengths within the limit."""
    room = embedder.limit // 2
    words = " ".join(fact for fact, _ in NEEDLES).split()
    texts = [" ".join(words[: max(1, room * part // 8)]) for part in range(1, 9)]
    vectors = []
    for one in (CUT, arm):
        with embedder.reading(one) as encode:  # one by one: batches of other sizes round otherwise
            vectors.append(np.concatenate([encode([text])[0] for text in texts]))
    return float(np.abs(vectors[1] - vectors[0]).max())


def _check_folder(out: str | Path) -> None:
    """Refuse a folder with anything but an older extended model, which saving would replace."""
    known = ("*.json", "*.safetensors", "*.txt", "*.model", "README.md", "[0-9]_*", "[0-9][0-9]_*")
    check_replaceable(out, known, "an extended model")
    settings = {}
    with suppress(OSError, ValueError):
        settings = json.loads((Path(out) / "config.json").read_text(encoding="utf-8"))
    noted = isinstance(settings, dict) and OWN_TYPE in settings
    ours = noted and (Path(out) / "modules.json").is_file()
    if Path(out).is_dir() and any(Path(out).iterdir()) and not ours:
        raise InputError(
            f"{out} is not a model that extend has written, and saving one would replace it; choose a new "
            "name."
        )


def _saved(report: Report, embedder: Embedder, out: Path, save: str | None) -> Report:
    """Write the arm: the recommended one, or windows in one vector if it needs one per window."""
    arm = save or report.advice.arm
    arm = MEAN if arm == SUREST else arm
    if arm in UNSAVED:
        return replace(report, unsaved=str(out))
    before = embedder.model.max_seq_length
    embedder.extend(arm)
    embedder.model.max_seq_length = report.to
    try:
        with atomic_folder(out) as draft:
            embedder.model.save_pretrained(str(draft), create_model_card=False)
            settings = draft / "sentence_bert_config.json"
            # Without it, sentence-transformers lowers the length to the model's max_position_embeddings.
            longer = {**json.loads(settings.read_text(encoding="utf-8")), "max_seq_length": report.to}
            settings.write_text(json.dumps(longer, indent=4) + "\n", encoding="utf-8")
    finally:
        embedder.model.max_seq_length = before
        embedder.restore(arm)
    return replace(report, saved=(str(out), arm))
