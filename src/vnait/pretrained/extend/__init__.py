"""`vnait extend`: ways to read texts past a model's limit, measured beside those that cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from vnait.pretrained.extend.decoder import extend_decoder, is_language_model
from vnait.pretrained.extend.embedder import Embedder, check_folder
from vnait.pretrained.extend.perplexity import Perplexities
from vnait.pretrained.extend.report import Report
from vnait.pretrained.extend.request import Callback, Request
from vnait.pretrained.extend.tasks import GENERATED, Result, Task, check_tasks, from_documents
from vnait.pretrained.extend.variants import DECODER_VARIANTS, MEAN, SUREST, UNSAVED, VARIANTS, variants_of
from vnait.shared.errors import InputError, did_you_mean, first_line
from vnait.shared.keys import key_of
from vnait.shared.quiet import no_bars
from vnait.shared.randomness import preserved_generators

__all__ = ["DECODER_VARIANTS", "VARIANTS", "Perplexities", "Report", "extend"]
TEXTS = 20  # per length, by default
SHORTEST = 256  # tokens of the shortest generated texts


def extend(
    model: Any,
    *,
    to: int = 4096,
    limit: int | None = None,
    variants: Sequence[str] = (),
    tasks: Sequence[str] = tuple(GENERATED),
    lengths: Sequence[int] = (),
    texts: int | None = None,
    documents: Sequence[str] = (),
    queries: Sequence[str] = (),
    labels: Sequence[str] = (),
    results: str | Path | None = None,
    out: str | Path | None = None,
    save: str | None = None,
    callback: Callback | None = None,
) -> Report | Perplexities:
    """Compare ways to read texts past a model's limit, untrained, with those that cost nothing.

    Args:
        model: a SentenceTransformer, or a folder or name that it loads; it is left as it was. Or the folder
            or GGUF file of a language model, whose perplexity is compared, and what it finds in texts
        to: the longest text, in tokens
        limit: tokens that the model reads as before, bit for bit; None: its `max_seq_length`, of a language
            model `max_position_embeddings`
        variants: names in `vnait.pretrained.extend.VARIANTS`, of a language model in `DECODER_VARIANTS`; all
            that are for the model if there are none. One that fails is left out with its reason
        tasks: of "passkey" and "needle", which are generated; () for documents alone, or perplexity
        lengths: of generated texts; 256, 512 ... up to `to` if there are none
        texts: generated per length, up to 30; None: 20, of a language model 4
        documents: your own, with a query or a label each, which a language model does not need
        results: a file for each result as it is measured, from which the same call goes on; None: none
        out: a folder for the recommended variant, which sentence-transformers loads after `import vnait`
        save: another variant to be saved there
        callback: called with (measured, all, what)

    Raises:
        InputError: an unknown name, a model that can't be extended, or a folder with other files.

    Needs sentence-transformers: `pip install 'vnait[embedders]'`.
    """
    request = Request(
        to=to,
        limit=limit,
        variants=variants,
        tasks=tasks,
        lengths=lengths,
        texts=texts,
        documents=documents,
        queries=queries,
        labels=labels,
        results=results,
        out=out,
        save=save,
        callback=callback,
    )
    run = extend_decoder if is_language_model(model) else _extend_embedder
    return run(model, request)


def _extend_embedder(model: Any, request: Request) -> Report:
    out, save = request.out, request.save
    if out is not None:
        check_folder(out)
    embedder, name = Embedder.load(model, request.limit, request.to)
    chosen = _variants(request.variants, save, embedder)
    with preserved_generators(), no_bars():
        work = _generated(embedder, request) + _of_the_user(embedder, request)
        if not work:
            raise InputError("there is nothing to try; give a task, or documents of your own.")
        measured, left_out = _measured(embedder, name, chosen, work, request)
        report = Report(
            model=name,
            limit=embedder.limit,
            to=request.to,
            results=measured,
            within={
                variant: embedder.change_within(variant)
                for variant in chosen
                if variant not in (*UNSAVED, *left_out)
            },
            left_out=left_out,
        )
        return report if out is None else _saved(report, embedder, Path(out), save)


def _measured(
    embedder: Embedder, name: str, variants: Sequence[str], tasks: Sequence[Task], request: Request
) -> tuple[tuple[Result, ...], dict[str, str]]:
    """Every variant on every task, and those that fail with their reasons."""
    facts, finished = [embedder.fingerprint, embedder.limit, embedder.to], request.finished
    results: list[Result] = []
    left_out: dict[str, str] = {}
    for place, (task, variant) in enumerate(product(tasks, variants)):
        what = f"{task.name}, {max(task.lengths):,}, {variant}"
        request.report_progress(place, len(tasks) * len(variants), what)
        key = key_of(*facts, asdict(task), variant)
        if variant in left_out:
            continue
        if key not in finished.rows:
            try:
                result = embedder.measure(variant, task)
            except (InputError, RuntimeError, MemoryError) as error:
                left_out[variant] = first_line(error)
                continue
            costs = {"seconds": result.seconds, "memory": result.memory}
            finished.add(key, task=task.name, variant=variant, right=result.right.tolist(), **costs)
        row = finished.rows[key]
        right = np.array(row["right"], dtype=bool)
        results.append(
            Result(variant=variant, task=task, right=right, seconds=row["seconds"], memory=row["memory"])
        )
    complete = [result for result in results if result.variant not in left_out]
    if not complete:
        reasons = "; ".join(f"{variant}: {reason}" for variant, reason in left_out.items())
        raise InputError(f"no variant can read these texts ({reasons}).")
    return tuple(complete), left_out


def _variants(variants: Sequence[str], save: str | None, embedder: Embedder) -> tuple[str, ...]:
    """Those that were asked for, in the order of `VARIANTS`; all that are for the model if none were."""
    possible = variants_of(embedder.source)
    saved = (save,) if save else ()
    for name in (*variants, *saved):
        if name not in VARIANTS:
            raise InputError(
                f"there is no variant {name}; take one of {', '.join(VARIANTS)}."
                f"{did_you_mean(name, VARIANTS)}"
            )
        if name not in possible:
            source = "neither table nor rotation" if embedder.source == "other" else embedder.source
            raise InputError(
                f"{name} is not for this model, whose positions come from {source}; take "
                f"{', '.join(possible)}."
            )
    if save in (*UNSAVED, SUREST):
        raise InputError(f"{save} is not in a model, so it can't be saved; take {MEAN} or an extension.")
    wanted = {*variants, *saved} if variants else set(possible)
    return tuple(name for name in VARIANTS if name in wanted)


def _generated(embedder: Embedder, request: Request) -> list[Task]:
    """Each generated task at each length."""
    check_tasks(request.tasks)
    texts, lengths = request.texts_per_length(TEXTS, least=2), request.lengths
    if not lengths:
        lengths = [SHORTEST * 2**power for power in range(20) if SHORTEST * 2**power < embedder.to]
        lengths = [*lengths, embedder.to]
    if longest := next((length for length in lengths if length > embedder.to), None):
        raise InputError(f"a length of {longest} is more than to={embedder.to}; give to={longest}.")
    tokenizer = embedder.model.tokenizer
    return [GENERATED[name](tokenizer, length, texts) for length in lengths for name in request.tasks]


def _of_the_user(embedder: Embedder, request: Request) -> list[Task]:
    """The task of the user's documents, if there are any."""
    documents, queries, labels = request.documents, request.queries, request.labels
    if bool(queries) == bool(labels) and (documents or queries):
        raise InputError("documents need a query each or a label each, and not both.")
    if not documents:
        return []
    tokenizer, limit = embedder.model.tokenizer, embedder.limit
    return [from_documents(tokenizer, documents, limit=limit, queries=queries, labels=labels)]


def _saved(report: Report, embedder: Embedder, out: Path, save: str | None) -> Report:
    """Write a variant: the recommended one, or windows in one vector if it needs one per window."""
    variant = save or report.advice.variant
    variant = MEAN if variant == SUREST else variant
    if variant in UNSAVED:
        return replace(report, unsaved=str(out))
    embedder.save(variant, out)
    return replace(report, saved=(str(out), variant))
