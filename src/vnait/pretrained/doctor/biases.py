"""Rules of biases of distances: in each layer they are those of ALiBi's slopes, or of the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from vnait.positions.encodings.bias import alibi_slopes
from vnait.pretrained.doctor.rule import Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.trial import Trial

COUNT = 160  # tokens: more than 128, past which T5's distances share a bucket
FEW = 48  # tokens, fewer than Switch's experts take
OFF = 0.01  # of the largest bias; log ratios of float32 are off by some 1e-6
DEEPEST = 60.0  # of a bias, e^-60 = 1e-26, above the smallest float32


# Equal tokens have equal queries and keys in every layer, so that attention differs by the bias alone.
def not_of_the_slopes(model: Any, ids: Tensor, slopes: list[float]) -> float:
    """How far log ratios of attention to equal tokens are from slopes times distances, in any layer."""
    model.set_attn_implementation("eager")
    biases = torch.tensor(slopes)[:, None] * torch.arange(1 - ids.shape[1], 1)
    parts = model(input_ids=ids, output_attentions=True).attentions
    logs = torch.stack([part[0, :, -1].float().cpu().log() for part in parts])
    return float((logs - logs[..., -1:] - biases).abs().max() / biases.abs().max())


def not_of_the_slopes_in_masks(model: Any, ids: Tensor, slopes: list[float]) -> float:
    """How far masks of attention by PyTorch's function are from slopes times distances, in any layer."""
    from unittest.mock import patch  # here, since the function is shown as a script

    biases = torch.tensor(slopes)[:, None] * torch.arange(1 - ids.shape[1], 1)
    attend = torch.nn.functional.scaled_dot_product_attention
    with patch("torch.nn.functional.scaled_dot_product_attention", wraps=attend) as calls:
        model(input_ids=ids)
    rows = torch.stack([call.kwargs["attn_mask"][0, :, -1] for call in calls.call_args_list]).float().cpu()
    return float((rows - rows[..., -1:] - biases).abs().max() / biases.abs().max())


def not_of_the_buckets(
    model: Any,
    ids: Tensor,
    side: str,
    layers: slice,
    path: str,
    far: int,
    both: bool,
    tables: list[str],
    **more: Tensor,
) -> float:
    """The same with T5's buckets: near distances have their own, far ones share them by their logarithm."""
    table, places = model.get_parameter(path).float().cpu(), torch.arange(ids.shape[1])
    away, half = places - places[:, None], len(table) // 2 if both else len(table)
    steps, near = away.abs() if both else (-away).clamp(min=0), half // 2
    shared = torch.log(steps / near) / torch.log(torch.tensor(far / near)) * (half - near)
    buckets = torch.where(steps < near, steps, near + shared.clamp(0, half - near - 1).long())
    biases = (table[buckets + half * both * (away > 0)] - table[0]).permute(2, 0, 1)
    zeros = {name: torch.zeros_like(model.get_parameter(name)) for name in tables}
    inputs = {"input_ids": ids, "output_attentions": True, **more}
    logs = torch.cat(torch.func.functional_call(model, zeros, (), inputs)[side][layers]).float().cpu().log()
    errors = (logs - logs.diagonal(dim1=2, dim2=3)[..., None] - biases).abs()[logs > -60]
    return float(errors.max() / biases.abs().max().clamp(min=1e-3))


def not_of_the_rows(
    model: Any, ids: Tensor, path: str, span: int, near: int, far: int, tables: list[str]
) -> float:
    """The same with DeBERTa's table, whose rows in turn get one of two vectors by a digit of their number."""
    table, places = model.get_parameter(path), torch.arange(ids.shape[1])
    away = places[:, None] - places
    shared = torch.log(away.abs() / near) / torch.log(torch.tensor((far - 1) / near)) * (near - 1)
    away = torch.where(away.abs() <= near, away, (near + shared.ceil()).clamp(max=span).long() * away.sign())
    numbers, errors = (away + span).clamp(0, 2 * span - 1), []
    zeros = {name: torch.zeros_like(model.get_parameter(name)) for name in tables}
    for digit in range(span.bit_length()):
        marks = torch.arange(len(table)) >> digit & 1
        rows = torch.arange(2 * table.shape[1]).view(2, -1).cos().to(table)[marks.to(table.device)]
        inputs = {"input_ids": ids, "output_attentions": True}
        logs = torch.cat(torch.func.functional_call(model, {**zeros, path: rows}, (), inputs).attentions)
        logs, moved = logs.float().cpu().log(), marks[numbers] != marks[numbers[0, 0]]
        logs = logs - logs.diagonal(dim1=2, dim2=3)[..., None]
        steps = logs[..., moved].mean(-1)[..., None, None] if moved.any() else logs.new_zeros(1)
        errors.append(float((logs - steps * moved).abs().max() / logs.abs().max().clamp(min=1e-3)))
    return max(errors)


@rule("BIAS01", "bias not as declared", Severity.BUG)
def bias_not_as_declared(subject: Subject) -> Evidence | None:
    """A bias of distances is not that of ALiBi's slopes, or of the rows of T5's or DeBERTa's table.

    Equal tokens have equal queries and keys, so that the logarithms of their attention differ by the bias
    alone; the rule measures this in every layer. It knows BLOOM, MPT, Falcon, MPNet, and the models of T5's
    and DeBERTa's kind. It is a trap of Falcon, whose eager attention adds the bias twice.

    Advice: compare the bias with transformers' own: its slopes, its buckets and their direction.
    """
    require(not subject.attached, "its bias is that of an attached method")
    subject.need_equal_numbers()
    subject.need_float32()
    usual = subject.model.config._attn_implementation
    with subject.attending("eager"):
        wrong = next((trial for trial in _trials(subject) if trial.size > OFF), None)
    return None if wrong is None else _evidence(wrong, usual, subject.alibi)


def _evidence(trial: Trial, usual: str, alibi: bool) -> Evidence:
    """The finding; a trap if only eager attention is wrong, and the model has another by default."""
    measured = f"log ratios of attention to equal tokens are off by {trial.size:.2g} of the largest bias"
    if not alibi or usual == "eager":
        return trial.evidence(measured)
    masks = trial.of(
        not_of_the_slopes_in_masks
    )  # of Falcon, whose attention is PyTorch's function by default
    if masks.size > OFF:
        return masks.evidence(f"biases in masks are off by {masks.size:.2g} of the largest")
    return trial.evidence(
        f"in eager attention, also with output_attentions, {measured}",
        severity=Severity.TRAP,
        advice=f"keep attn_implementation={usual!r}, and ask for no attentions",
    )


def _trials(subject: Subject) -> list[Trial]:
    """A measurement per table of biases, or one of all layers."""
    trials = [*_of_slopes(subject), *_of_buckets(subject), *_of_rows(subject)]
    require(trials, "it has no bias of distances whose formula is known")
    return trials


def _of_slopes(subject: Subject) -> Iterator[Trial]:
    for owner in subject.owners.values():
        if slopes := _slopes(owner):
            most = getattr(owner.config, "max_seq_len", COUNT)  # of MPT
            count = min(COUNT, int(DEEPEST / max(slopes)), most)
            ids = subject.text(1).expand(1, count)
            _need_attentions(subject, "attentions", ids)
            yield subject.trial(
                not_of_the_slopes, f"{count} tokens", part=subject.model, ids=ids, slopes=slopes
            )


def _slopes(owner: Any) -> list[float]:
    """The declared slopes of ALiBi, largest distance per step first; none without ALiBi."""
    config = owner.config
    slopes = alibi_slopes(config.num_attention_heads) if hasattr(config, "num_attention_heads") else []
    if hasattr(owner, "build_mpt_alibi_tensor"):
        return [slope ** (config.attn_config.alibi_bias_max / 8) for slope in slopes]
    if getattr(config, "alibi", False):  # Falcon adds it before its scores are divided
        return [slope * (config.hidden_size // len(slopes)) ** -0.5 for slope in slopes]
    return slopes if hasattr(owner, "build_alibi_tensor") else []


def _of_buckets(subject: Subject) -> Iterator[Trial]:
    """A trial per table of T5's kind, with the layers that read it."""
    # Experts have room for so many equal tokens only.
    experts = any(
        isinstance(part, nn.Module) and hasattr(part, "expert_capacity") for part in subject.model.modules()
    )
    count = min(FEW if experts else COUNT, subject.longest)
    ids = subject.text(1).expand(1, count)
    more = {"decoder_input_ids": ids} if subject.encodes_and_decodes else {}
    for before, owner in subject.owners.items():
        parts = {path: part for path, part in owner.named_modules() if _has_buckets(part)}
        tables = _tables(subject, before) if parts else []
        for number, (path, part) in enumerate(parts.items()):
            decoder = getattr(part, "is_decoder", False)
            side = f"{'decoder' if decoder else 'encoder'}_attentions" if more else "attentions"
            _need_attentions(subject, side, ids, **more)
            yield subject.trial(
                not_of_the_buckets,
                f"{count} tokens",
                part=subject.model,
                ids=ids,
                side=side,
                layers=slice(None) if len(parts) == 1 else slice(number, number + 1),
                path=f"{before}.{path}.relative_attention_bias.weight".removeprefix("."),
                far=_farthest(owner, part),
                both=not decoder,
                tables=tables,
                **more,
            )


def _farthest(owner: Any, part: Any) -> int:
    """The distance from which on all have one bucket, as declared; MPNet's is a constant of its code."""
    read = getattr(part, "relative_attention_max_distance", 128)
    return int(getattr(owner.config.get_text_config(), "relative_attention_max_distance", read))


def _of_rows(subject: Subject) -> Iterator[Trial]:
    """A trial per table of DeBERTa's kind; none with a convolution, which gives equal tokens other states."""
    for before, owner in subject.owners.items():
        for path, part in owner.named_modules():
            if not isinstance(getattr(part, "rel_embeddings", None), nn.Embedding) or subject.convolves:
                continue
            span, buckets = len(part.rel_embeddings.weight) // 2, getattr(part, "position_buckets", 0)
            ids = subject.text(1).expand(1, min(COUNT, subject.longest))
            _need_attentions(subject, "attentions", ids)
            yield subject.trial(
                not_of_the_rows,
                f"{ids.shape[1]} tokens",
                part=subject.model,
                ids=ids,
                path=f"{before}.{path}.rel_embeddings.weight".removeprefix("."),
                span=span,
                near=span // 2 if buckets > 0 else COUNT,  # all farther ones have the last row
                far=part.max_relative_positions,
                tables=_tables(subject, before),
            )


def _tables(subject: Subject, before: str) -> list[str]:
    """The weights of its position tables."""
    paths = [table.path for site in subject.sites for table in site.tables]
    return [f"{before}.{path}.weight".removeprefix(".") for path in paths]


def _has_buckets(part: Any) -> bool:
    known = ("_relative_position_bucket", "relative_position_bucket")
    table = getattr(part, "relative_attention_bias", None)
    return isinstance(table, nn.Embedding) and any(hasattr(part, name) for name in known)


def _need_attentions(subject: Subject, side: str, ids: Tensor, **more: Tensor) -> None:
    """`NotTried` unless every layer gives its attention to all tokens."""
    output = subject.call(subject.model, input_ids=ids, output_attentions=True, **more)
    parts, count = getattr(output, side, None) or (), ids.shape[1]
    whole = all(isinstance(part, Tensor) and tuple(part.shape[2:]) == (count, count) for part in parts)
    require(parts and whole, "it gives no attention of all tokens to all tokens")
