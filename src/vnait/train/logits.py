"""Logits of many texts, in batches of similar length."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from transformers import PreTrainedModel

from vnait.data import collate
from vnait.data.sentences import Piece
from vnait.model import CLASSIFIERS, VnaitForSequenceClassification
from vnait.shared.processes import computing, cores, threads, usual_torch

SEPARATOR = "pair_separator"  # in a configuration: the id after which a pair's second text has token type 1
BATCH_TOKENS = 2048  # fewer cost more time around the arithmetic, and more leave the processor's cache


@usual_torch()
def logits_of(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> Tensor:
    """Logits (texts, classes), in the order of the texts; batches have texts of similar length."""
    logits = torch.empty(len(ids), model.config.num_labels, dtype=torch.float32)
    for rows, part in _read(model, ids):
        logits[rows] = part
    return logits


@usual_torch()
@torch.inference_mode()
def linear_logits_of(model: VnaitForSequenceClassification, ids: Sequence[Sequence[int]]) -> Tensor:
    """The logits (texts, classes) of the linear part alone, in the order of the texts."""
    logits = torch.empty(len(ids), model.config.num_labels, dtype=torch.float32)
    for rows in _by_length([len(row) for row in ids]):
        batch = collate([ids[row] for row in rows], pad_id=model.config.pad_token_id)
        with computing():
            logits[rows] = model.bag(batch["input_ids"], batch["attention_mask"].bool())
    return logits


@usual_torch()
def word_logits_of(model: PreTrainedModel, sentences: Sequence[Sequence[Piece]]) -> list[Tensor]:
    """Logits (words, classes) of each sentence, at the first token of each word."""
    flat = [piece for sentence in sentences for piece in sentence]
    of_pieces: dict[int, Tensor] = {}
    for rows, logits in _read(model, [piece.ids for piece in flat]):
        for row, token_logits in zip(rows, logits, strict=True):
            of_pieces[row] = token_logits[flat[row].starts]
    each = iter(of_pieces[row] for row in range(len(flat)))
    none = torch.empty(0, model.config.num_labels, dtype=torch.float32)  # of a sentence without words
    return [torch.cat([none, *(next(each) for _ in sentence)]) for sentence in sentences]


def _read(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], Tensor]]:
    """The rows of each batch with their logits; batches have texts of similar length.

    A model of ours reads as many batches at once as PyTorch has threads, each by one: its operations are too
    small to be shared, and a result does not depend on the number of threads.
    """
    model.eval()
    batches = _by_length([len(row) for row in ids])

    @torch.inference_mode()
    def read(rows: list[int]) -> Tensor:
        batch = collate(
            [ids[row] for row in rows],
            pad_id=model.config.pad_token_id,
            separator=getattr(model.config, SEPARATOR, None),
        )
        batch = {name: tensor.to(model.device) for name, tensor in batch.items()}
        with computing():
            logits: Tensor = model(**batch).logits.float().cpu()
        return logits

    count = cores()
    small = isinstance(model, CLASSIFIERS) and model.device.type == "cpu"
    with ThreadPoolExecutor(count if small else 1) as pool, threads(1 if small else count):
        yield from zip(batches, pool.map(read, batches), strict=True)


def _by_length(lengths: Sequence[int]) -> list[list[int]]:
    """All rows in batches, the shortest first, of as many as fit into `BATCH_TOKENS` with their padding.

    >>> _by_length([1, BATCH_TOKENS, 2])
    [[0, 2], [1]]
    """
    batches: list[list[int]] = [[]]
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[row] > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(row)
    return batches if batches[0] else []
