"""Rules of the sources of position: there is one, and it acts."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vnait.pretrained.doctor.rotation import ANGLES, ITSELF, not_sines
from vnait.pretrained.doctor.rule import Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.trial import Measure, Trial, difference
from vnait.pretrained.layers import DifferentiableRotary, SilencedTable
from vnait.pretrained.locate import Site
from vnait.pretrained.windows import ORDER, chunk_of, order_within, window_of

SMALLEST = f"{len(ORDER)} tokens"
SAME = 0.01  # of lengths, in half precision, too
TABLE, ROTATION, BIAS = "a position table", "a rotation", "a bias of distances"


class PositionModule(NamedTuple):
    """A source of position: its kind and its path, of a table's tensor or of a module that rotates."""

    kind: str
    path: str


def reordered(model: Any, ids: Tensor, order: list[int], **more: Any) -> float:
    """How much the output of every token changes if the tokens are reordered; 0 without position."""
    before, after = model(input_ids=ids, **more)[0], model(input_ids=ids[:, order], **more)[0]
    return difference(before if more else before[:, order], after)


def reordered_before(model: Any, ids: Tensor, order: list[int], **more: Any) -> float:
    """How much the last token's state after the first layer changes if the tokens before are reordered."""
    inputs = {"output_hidden_states": True, "attention_mask": torch.ones_like(ids), **more}
    before, after = (model(input_ids=row, **inputs).hidden_states[1][:, -1] for row in (ids, ids[:, order]))
    return difference(before, after)


def without_table(model: Any, ids: Tensor, path: str, **more: Any) -> float:
    """How much outputs change if a table is zero."""
    inputs, tensors = (
        {"input_ids": ids, **more},
        {**dict(model.named_parameters()), **dict(model.named_buffers())},
    )
    zeros = {path: torch.zeros_like(tensors[path])}
    return difference(model(**inputs)[0], torch.func.functional_call(model, zeros, (), inputs)[0])


def without_rotation(model: Any, ids: Tensor, path: str, **more: Any) -> float:
    """How much outputs change if a rotation is the same at all places."""

    def still(part: Any, args: Any, output: Any) -> Any:
        same = [x[..., :1, :].expand_as(x) for x in (output if isinstance(output, tuple) else [output])]
        return tuple(same) if isinstance(output, tuple) else same[0]

    before = model(input_ids=ids, **more)[0]
    with model.get_submodule(path).register_forward_hook(still):
        return difference(before, model(input_ids=ids, **more)[0])


def unusable_rows(model: Any, path: str, first: int) -> float:
    """How many rows of a table are not finite, or equal to another."""
    rows = {**dict(model.named_parameters()), **dict(model.named_buffers())}[path][first:]
    finite = rows[rows.isfinite().all(1)]
    return float(len(rows) - len(finite.unique(dim=0)))


def reordered_without_tables(model: Any, ids: Tensor, order: list[int], paths: list[str]) -> float:
    """How much the last token's first state changes if the tokens before it are reordered, without tables."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    zeros = {path: torch.zeros_like(tensors[path]) for path in paths}
    rows = [{"input_ids": row, "output_hidden_states": True} for row in (ids, ids[:, order])]
    before, after = (
        torch.func.functional_call(model, zeros, (), row).hidden_states[1][:, -1] for row in rows
    )
    return difference(before, after)


def reordered_without_rotations(model: Any, ids: Tensor, order: list[int], kind: str) -> float:
    """The same if rotations of this class are the same at all places."""

    def still(part: Any, args: Any, output: Any) -> Any:
        if type(part).__name__ != kind:
            return output
        same = [x[..., :1, :].expand_as(x) for x in (output if isinstance(output, tuple) else [output])]
        return tuple(same) if isinstance(output, tuple) else same[0]

    with torch.nn.modules.module.register_module_forward_hook(still):
        rows = [model(input_ids=row, output_hidden_states=True) for row in (ids, ids[:, order])]
    before, after = (row.hidden_states[1][:, -1] for row in rows)
    return difference(before, after)


@rule("SRC01", "no position", Severity.BUG)
def no_position(subject: Subject) -> Evidence | None:
    """The output does not depend on the order of the tokens.

    In a decoder, the rule compares the states after the first layer: deeper ones know the order by what each
    token could see. A decoder without any source of position (NoPE) has a limit.

    Advice: do not use it where order matters; vnait.attach can give it a source of position.
    """
    arguments = {"ids": subject.text(len(ORDER)), "order": ORDER, **subject.more}
    trial = subject.trial(reordered_before if subject.causal else reordered, SMALLEST, **arguments)
    # A source may act below the tolerance, as in a new model, whose weights are small.
    if trial.size > subject.tolerance / 10 or any(_acts(subject, source) for source in _sources(subject)):
        return None
    subject.need_float32()
    carried = [*_sources(subject), *(site for site in subject.sites if site.alibi or site.turning)]
    by_design = subject.causal and not carried  # a decoder knows order by its mask
    where = "the first layer's states move" if subject.causal else "outputs move"
    return trial.evidence(
        f"{where} by {trial.size:.1g} times the largest one if the tokens are reordered",
        severity=Severity.LIMIT if by_design else None,
    )


@rule("SRC02", "a source without effect", Severity.BUG)
def without_effect(subject: Subject) -> Evidence | None:
    """The model carries a source of position that changes no output.

    The rule sets tables to zero, and rotations to one angle for all positions. It is a limit if another
    source of the kind acts: it may be for layers of a kind that is not there.

    Advice: load the model with a class that reads it, or restore the part that was replaced.
    """
    sources = list(_sources(subject))
    require(sources, "it has no position table and no rotation")
    acting = {source.kind for source in sources if _acts(subject, source)}
    idle = next((source for source in sources if not _acts(subject, source)), None)
    if idle is None:
        return None
    # It may be for layers of a kind that is not there, or beside ALiBi.
    by_design = idle.kind in acting or (idle.kind == ROTATION and subject.alibi)
    return _removal(subject, idle).evidence(
        f"without {idle.path}, {idle.kind}, outputs move by 0",
        severity=Severity.LIMIT if by_design else None,
    )


@rule("SRC03", "two sources", Severity.BUG)
def two_sources(subject: Subject) -> Evidence | None:
    """Two sources of position act at once.

    It is a limit if they are a table and a bias of distances, as in MPNet, or a convolution. The rule also
    finds a source that remains when the known one is off: it reorders tokens within the window of the first
    layer, which shows the order by itself.

    Advice: remove one of them: each is read as if it were the only one.
    """
    acting = [source for source in _sources(subject) if _acts(subject, source)]
    kinds = {source.kind: source.path for source in acting}
    kinds |= {BIAS: "build_alibi_tensor"} if any(site.alibi for site in subject.sites) else {}
    if len(kinds) > 1:
        return _both(subject, acting, kinds)
    if len(kinds) == 1 and acting and not subject.encodes_and_decodes:
        return _unknown(subject, acting, *kinds)
    return None


@rule("SRC04", "unusable rows", Severity.BUG)
def rows_without_use(subject: Subject) -> Evidence | None:
    """A position table has rows that are not finite, or equal to another: two positions look the same.

    Rows before the first position, such as RoBERTa's, don't count.

    Advice: load the table again; else give texts that end before these rows.
    """
    tables = [source.path for source in _sources(subject) if source.kind == TABLE]
    require(tables, "it has no position table")
    for path in tables:
        module, _, name = path.rpartition(".")
        total = len(getattr(subject.model.get_submodule(module), name)) - subject.reserved
        arguments = {"path": path, "first": subject.reserved}
        smallest = f"a text of {total} tokens"
        trial = subject.trial(unusable_rows, smallest, part=subject.model, **arguments)
        if count := int(trial.size):
            measured = f"{count} of {total} rows of {path} are not finite, or equal to another"
            return trial.evidence(measured, size=count, shown=count)
    return None


@rule("SRC05", "sines not as declared", Severity.BUG)
def sines_not_as_declared(subject: Subject) -> Evidence | None:
    """A fixed table has other sines and cosines than those of its positions.

    The rule compares it with sin and cos of p 10000^(-k / K), or p 10000^(-k / (K - 1)) in the models that
    come from fairseq, such as M2M100. A table that is learned is not judged: only one whose pairs of numbers
    all have the same length is of sines.

    Advice: make the model again with transformers' own class, which computes this table itself.
    """
    tables = list(_tables_of_sines(subject))
    require(tables, "it has no fixed table of sines")
    for path, module, rows in tables:
        less = int(hasattr(module, "get_embedding"))  # of fairseq
        arguments = {"path": path, "less": less, "paired": not _in_halves(rows)}
        trial = subject.trial(not_sines, ITSELF, part=subject.model, **arguments)
        # Angles far from the start are rounded by more.
        if trial.size > max(ANGLES, 1e-6 * len(rows), 2 * torch.finfo(rows.dtype).eps):
            return trial.evidence(f"sines or cosines of {path} are off by up to {trial.size:.2g}")
    return None


def _tables_of_sines(subject: Subject) -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Path, module and rows of each fixed table; those by which GPT-J rotates are ROPE04's."""
    for side, owner in subject.owners.items():
        if not type(owner).__module__.startswith("transformers."):  # others may have another formula
            continue
        for path, rows in (*owner.named_parameters(), *owner.named_buffers()):
            module = owner.get_submodule(path.rpartition(".")[0])
            named = "pos" in path and not path.endswith(".embed_positions")
            if named and not isinstance(module, SilencedTable) and _is_of_sines(rows.detach()):
                yield f"{side}.{path}".removeprefix("."), module, rows


def _is_of_sines(rows: Tensor) -> bool:
    """Whether rows differ, but all pairs of numbers, in halves or neighbours, have the same length."""
    if rows.ndim != 2 or rows.shape[1] % 2 or rows.is_meta or not rows.is_floating_point() or not rows.any():
        return False
    used = rows[rows.any(1)]
    varied = not torch.equal(used, used[:1].expand_as(used))
    return varied and (_in_halves(rows) or _of_one_length(rows.unflatten(1, (-1, 2)).mT))


def _in_halves(rows: Tensor) -> bool:
    """Whether the first half has sines and the second their cosines."""
    return _of_one_length(rows.unflatten(1, (2, -1)))


def _of_one_length(pairs: Tensor) -> bool:
    """Whether all pairs, (N, 2, K), have the same length; rows of zeros, which are for padding, aside."""
    lengths = pairs[pairs.flatten(1).any(1)].float().norm(dim=1)
    return float(lengths.max() - lengths.min()) < SAME * float(lengths.max())


def _both(subject: Subject, acting: list[PositionModule], kinds: dict[str, str]) -> Evidence:
    """Two known sources; a table beside a bias is the design of some models."""
    designed = BIAS in kinds and ROTATION not in kinds  # as MPNet's and DeBERTa's
    designed = designed and not any(site.alibi for site in subject.sites)
    return _removal(subject, acting[0]).evidence(
        " and ".join(f"{kind} ({path})" for kind, path in kinds.items()) + " act",
        severity=Severity.LIMIT if designed else None,
    )


def _unknown(subject: Subject, acting: list[PositionModule], kind: str) -> Evidence | None:
    """A source that is left when the known ones are off; a convolution is one by design."""
    config = subject.sites[0].owner.config
    chunk = chunk_of(config, 0)
    order = order_within((len(ORDER) - 1) % chunk if chunk else window_of(config, 0))
    subject.need_equal_numbers()
    arguments: dict[str, Any] = {"ids": subject.text(len(order)), "order": order}
    if kind == ROTATION:
        measure: Measure = reordered_without_rotations
        arguments["kind"] = type(subject.model.get_submodule(acting[0].path)).__name__
    else:
        measure, arguments["paths"] = reordered_without_tables, [source.path for source in acting]
    trial = subject.trial(measure, SMALLEST, part=subject.model, **arguments)
    if trial.size <= 10 * subject.rounding:
        return None
    # New models have small weights: what is left counts beside what order does with the known source.
    usual = {"ids": arguments["ids"], "order": order}
    usual_size = subject.trial(reordered_before, SMALLEST, part=subject.model, **usual).size
    if trial.size <= min(subject.tolerance, usual_size / 20):
        return None
    return trial.evidence(
        f"without {kind}, another order still moves the first layer's states by {trial.size:.2g}",
        severity=Severity.LIMIT if subject.convolves or not subject.accepts("attention_mask") else None,
    )


def _sources(subject: Subject) -> Iterator[PositionModule]:
    for site in subject.sites:
        yield from _of_site(site)


def _of_site(site: Site) -> Iterator[PositionModule]:
    """The sources of one site: tables, rotations, and biases that have a weight."""
    before = f"{site.path}." if site.path else ""
    for table in site.tables:
        name = "weight" if isinstance(table.module, nn.Embedding | SilencedTable) else "weights"
        yield PositionModule(TABLE, f"{before}{table.path}.{name}")
    if getattr(getattr(site.owner, "vnait", None), "own_places", None) == "zero":
        return  # `attach` has switched the model's own rotation or bias off
    for rotary in site.rotaries:
        wrapped = isinstance(rotary.parent, DifferentiableRotary)  # which calls no hook of what it wraps
        yield PositionModule(ROTATION, before + (rotary.path.rpartition(".")[0] if wrapped else rotary.path))
    for part in site.relatives:
        yield PositionModule(BIAS, f"{before}{part.path}.relative_attention_bias.weight")
    for inner in site.inside:
        if isinstance(site.owner.get_submodule(inner), nn.Embedding):
            yield PositionModule(BIAS, f"{before}{inner}.weight")


def _acts(subject: Subject, source: PositionModule) -> bool:
    """Whether any output moves without it, by however little."""
    return _removal(subject, source).size > 0


def _removal(subject: Subject, source: PositionModule) -> Trial:
    """The measurement of outputs without a source."""
    measure = without_rotation if source.kind == ROTATION else without_table
    arguments = {"ids": subject.text(len(ORDER)), "path": source.path, **subject.more}
    return subject.trial(measure, SMALLEST, part=subject.model, **arguments)
