"""Attached methods in every family of models: warm starts, padding, caches, adapters, audits, refusals."""

from __future__ import annotations

import copy
import functools
import json
import logging
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import families
import vnait
from conftest import unchecked
from families import (
    DECODERS,
    FAMILIES,
    GROUPED,
    OWN_ATTENTION,
    RARE,
    ROTARY,
    ROWS,
    SMALL,
    TWO_SIDED,
    attached_to,
    forward,
    ids_of,
    logits,
    method_of,
    model_of,
)
from helpers import python
from vnait import InputError, Method
from vnait.positions.coordinates import Ends, Index, Jitter, Randomized, Running, Saturating
from vnait.positions.encodings import AlibiBias, NoPosition, Rotary, Sinusoid
from vnait.positions.injection import LogLength
from vnait.pretrained import FAMILIES as TYPES
from vnait.pretrained import Family, load_adapter, save_adapter, save_base
from vnait.pretrained.attach.attached import Attached, attached_owners
from vnait.pretrained.layers import DifferentiableRotary
from vnait.pretrained.locate import is_causal, owners_of
from vnait.pretrained.table import Rows, running_places

ONE_SIDED = [name for name in FAMILIES if name not in TWO_SIDED]
every_family = pytest.mark.parametrize("family", FAMILIES)


def attached_owner(model: nn.Module) -> Any:
    """The only owner of a model with one side."""
    (owner,) = attached_owners(model).values()
    return owner


def sides(model: nn.Module) -> list[Attached]:
    return [owner.vnait for owner in attached_owners(model).values()]


def without_noise(method: Method) -> None:
    """Training draws no random numbers."""
    for part in method.coordinates.modules():
        if isinstance(part, Jitter):
            part.shift = 0.0
        if isinstance(part, Saturating):
            part.stretch = 1.0
    for view in method.inputs.views:
        view.dropout = 0.0


@every_family
def test_warm_start_keeps_the_outputs_and_detach_gives_the_model_back(family):
    model, ids = model_of(family), ids_of(length=ROWS - 4)
    before, weights = logits(model, ids), copy.deepcopy(model.state_dict())
    learned = {name for name, weight in model.named_parameters() if weight.requires_grad}
    report = vnait.attach(model, method_of(family))
    after = logits(model, ids)
    assert report.difference <= 2e-6
    equal = family in ["distilbert", "gpt2", *ROTARY] and family != "gptj"  # whose sines are rounded
    assert (after - before).abs().max() <= (0 if equal else 1e-5)
    assert weights.keys() < model.state_dict().keys()
    assert all(torch.equal(weights[name], model.state_dict()[name]) for name in weights)
    vnait.detach(model)
    assert list(model.state_dict()) == list(weights)
    assert all(torch.equal(weights[name], model.state_dict()[name]) for name in weights)
    assert torch.equal(logits(model, ids), before)
    assert {name for name, weight in model.named_parameters() if weight.requires_grad} == learned
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in model.modules())


@pytest.mark.parametrize("rare", RARE)  # all other tests of these are marked long
def test_a_rare_family_keeps_its_outputs_and_counts_no_padding(rare):
    model, ids = model_of(rare), ids_of(length=12)
    before = logits(model, ids)
    vnait.attach(model, method_of(rare))
    assert torch.allclose(logits(model, ids), before, atol=1e-5) and vnait.audit(model).leftover < 1e-5
    vnait.detach(model)
    assert torch.equal(logits(model, ids), before)
    model = attached_to(rare)
    alone, real = logits(model, ids), torch.ones_like(ids)
    padded = logits(model, nn.functional.pad(ids, (3, 0)), attention_mask=nn.functional.pad(real, (3, 0)))
    assert (padded[:, 3:] - alone).abs().max() <= 2e-5 * alone.abs().max()


@pytest.mark.parametrize(
    "method", ["vnait", "vnait-causal", "lpi", "sinusoidal", "fourier", Ends(Randomized(limit=520))]
)
def test_old_positions_are_read_at_the_index_before_training(method):
    coordinates = vnait.build(method, dim=16, num_heads=2).coordinates if isinstance(method, str) else method
    mask = torch.arange(520)[None] >= torch.tensor([[0], [8]])
    place = running_places(coordinates, torch.randn(2, 520, 16), mask)
    assert torch.allclose(place[0].double(), torch.arange(520).double(), rtol=0, atol=1e-9)
    assert torch.allclose(place[1, 8:].double(), torch.arange(512).double(), rtol=0, atol=1e-9)


@every_family
def test_a_cold_start_drops_the_models_own_position(family):
    model, ids = model_of(family), ids_of()
    before = logits(model, ids)
    assert vnait.attach(model, method_of(family), warm_start=None).difference > 0.1
    after = logits(model, ids)
    table = next((weight for name, weight in model.named_parameters() if name.endswith(_TABLES)), None)
    if table is not None:
        with torch.no_grad():
            table.add_(1)
    assert torch.equal(logits(model, ids), after)
    assert not torch.allclose(after, before, atol=0.1)


_TABLES = ("position_embeddings.weight", "wpe.weight", "embed_positions.weight")


@every_family
def test_gradients_reach_every_parameter(family):
    model = attached_to(family).train()
    for side in sides(model):
        without_noise(side.method)
    forward(model, ids_of()).logits.square().mean().backward()
    for name, weight in model.named_parameters():
        assert weight.requires_grad != name.endswith(_TABLES)
        if "vnait." in name:
            assert weight.grad is not None and weight.grad.abs().max() > 0, name


@every_family
def test_the_input_is_the_formula(family):
    """x = e + old(p) + gate * (method(e) - e), with the method at vectors of a root mean square near 1."""
    mask = torch.ones(1, 20, dtype=torch.bool)
    e = model_of(family).get_input_embeddings()(torch.arange(20)).detach()[None]  # XGLM scales them
    for attached in sides(attached_to(family)):
        output = attached.method(e / attached.scale, mask)
        place = running_places(attached.method.coordinates, e / attached.scale, mask)
        old = 0 if attached.old is None else attached.old.read(place)
        expected = e + old + attached.gate * (output.x * attached.scale - e)
        assert torch.allclose(attached(e, mask).x, expected, atol=1e-6)
        assert 0.7 < (e / attached.scale).square().mean().sqrt() < 1.43
        assert math.log2(attached.scale).is_integer()


@every_family
def test_gate_and_places_learn_from_the_first_step(family):
    model = model_of(family)
    vnait.attach(model, method_of(family))
    forward(model, ids_of()).logits.square().mean().backward()
    for attached in sides(model):
        source = "tell.weight" if attached.causal else "weigh.weight"
        places = next(weight for name, weight in attached.named_parameters() if name.endswith(source))
        assert attached.gate.grad.abs().max() > 0
        assert places.grad.abs().max() > 0


@every_family
@pytest.mark.parametrize("warm_start", ["exact", None])
def test_padding_on_either_side_changes_nothing(family, warm_start):
    model, ids = attached_to(family, warm_start=warm_start), ids_of(rows=1, length=9)
    alone = logits(model, ids)
    for side in [(3, 0), (0, 3)]:
        padded = nn.functional.pad(ids, side)
        mask = nn.functional.pad(torch.ones_like(ids), side)
        got = logits(model, padded, attention_mask=mask)[:, side[0] : side[0] + 9]
        assert (got - alone).abs().max() <= 2e-5 * alone.abs().max()


@every_family
def test_texts_may_exceed_the_table(family):
    model = attached_to(family)
    assert torch.isfinite(logits(model, ids_of(length=3 * ROWS))).all()


def test_an_encoder_compresses_places_past_the_table_and_a_decoder_clamps_them():
    """A text twice as long as the table, and a padded one that fits."""
    length = 2 * ROWS
    mask = torch.arange(length) < torch.tensor([[length], [ROWS // 2]])
    index = torch.arange(length).float().expand(2, -1)
    for family, first in (
        ("bert", index[0] * (ROWS - 1) / (length - 1)),
        ("gpt2", index[0].clamp(max=ROWS - 1)),
    ):
        model = model_of(family)
        vnait.attach(model, method_of(family))
        attached = attached_owner(model).vnait
        nothing = torch.zeros(2, length, attached.gate.shape[0])
        with torch.no_grad():
            found = attached(nothing, mask).x
            wanted = attached.old.read(torch.stack([first, index[1]]))
        assert torch.allclose(found[mask], wanted[mask], atol=1e-5 * float(wanted.abs().max()))


@every_family
def test_inputs_embeds_get_positions_too(family):
    model, ids = attached_to(family), ids_of()
    vectors = model.get_input_embeddings()(ids).detach()
    if family in TWO_SIDED:
        real = torch.ones_like(ids)
        given = {"inputs_embeds": vectors, "decoder_inputs_embeds": vectors, "decoder_attention_mask": real}
        with torch.no_grad():
            assert torch.allclose(model(**given, attention_mask=real).logits, logits(model, ids), atol=1e-6)
        return
    with torch.no_grad():
        got = model(inputs_embeds=vectors, attention_mask=torch.ones_like(ids)).logits
        bare = [model(ids).logits]
        if family in DECODERS:  # without mask and cache, position_ids may mean packed texts
            bare.append(model(ids, use_cache=False).logits)
    for other in (got, *bare):
        assert torch.allclose(other, logits(model, ids), atol=1e-6)


@pytest.mark.parametrize("method", ["vnait", "rope", "alibi"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_model_may_change_its_precision_before_and_after_attach(method, dtype):
    after, before, ids = model_of("bert"), model_of("bert").to(dtype), ids_of()
    plain, start = logits(after, ids), "exact" if method == "vnait" else None
    vnait.attach(after, method, warm_start=start)
    expected = logits(after, ids)
    vnait.attach(before, method, warm_start=start)
    for model in (after.to(dtype), before):
        assert logits(model, ids).dtype == dtype
        assert (logits(model, ids) - expected).abs().max() <= 16 * torch.finfo(
            torch.bfloat16
        ).eps * plain.abs().max()
        assert all(
            weight.dtype == torch.promote_types(dtype, torch.float32)
            for weight in sides(model)[0].parameters()
        )


def test_half_precision_rounding_is_not_taken_for_another_position():
    """At float32's limit of 1e-4, three of these ten models were refused."""
    for seed in range(10):
        torch.manual_seed(seed)
        sizes = {
            "hidden_size": 128,
            "num_attention_heads": 4,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
        }
        model = transformers.BertModel(
            transformers.BertConfig(**sizes, vocab_size=99, initializer_range=0.1)
        ).eval()
        vnait.attach(model.half())


@every_family
def test_a_copy_is_independent(family):
    model, ids = attached_to(family), ids_of()
    expected = logits(model, ids)
    twin = copy.deepcopy(model)
    assert torch.equal(logits(twin, ids), expected)
    with torch.no_grad():
        for side in sides(twin):
            side.gate.add_(1)
    assert not torch.equal(logits(twin, ids), expected)
    vnait.detach(twin)
    assert torch.equal(logits(model, ids), expected)
    assert torch.equal(logits(twin, ids), logits(model_of(family), ids))


def test_folders_of_an_adapter_and_of_a_base_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    model = attached_to("bert")
    save_adapter(model, "~/adapter")
    save_base(model, "~/base")
    load_adapter(type(model).from_pretrained(tmp_path / "base"), "~/adapter")
    assert {path.name for path in tmp_path.iterdir()} == {"adapter", "base"}


@every_family
def test_an_adapter_loads_into_its_own_base_only(family, tmp_path):
    model, ids = attached_to(family), ids_of()
    save_adapter(model, tmp_path / "adapter")
    assert sorted(path.name for path in (tmp_path / "adapter").iterdir()) == [
        "vnait.json",
        "vnait.safetensors",
    ]
    again = model_of(family)
    load_adapter(again, tmp_path / "adapter")
    assert torch.equal(logits(again, ids), logits(model, ids))
    wrong = model_of(family)
    with torch.no_grad():
        next(iter(wrong.parameters()))[3, 0] += 1e-3
    with pytest.raises(InputError, match=r"is the adapter of .* with weights .* load that base"):
        load_adapter(wrong, tmp_path / "adapter")
    vnait.detach(again)
    with pytest.raises(InputError, match=r"has no method attached"):
        vnait.detach(wrong)


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("warm_start", ["exact", None])
def test_a_cache_changes_nothing(family, warm_start):
    model, ids = attached_to(family, warm_start=warm_start), ids_of(length=12)
    whole = logits(model, ids)
    cache, parts = None, []
    for part in ids.split([5, 1, 1, 4, 1], dim=1):
        with torch.no_grad():
            out = model(part, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        parts.append(out.logits)
    assert torch.allclose(torch.cat(parts, 1), whole, atol=2e-5)


@pytest.mark.parametrize("family", DECODERS)
def test_no_token_depends_on_later_ones(family):
    model, ids = attached_to(family), ids_of(length=12)
    other = ids.clone()
    other[:, 8:] = ids_of(length=30)[:, -4:]
    assert torch.allclose(logits(model, ids)[:, :8], logits(model, other)[:, :8], atol=1e-6)


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("beams", [1, 3])
def test_generate_is_the_same_with_a_cache_and_in_a_padded_batch(family, beams):
    model = attached_to(family)
    short, long = ids_of(rows=1, length=5), ids_of(rows=1, length=8)
    batch = torch.cat([nn.functional.pad(short, (3, 0)), long])
    mask = torch.cat([nn.functional.pad(torch.ones_like(short), (3, 0)), torch.ones_like(long)])

    def written(ids: Tensor, mask: Tensor, cached: bool) -> Tensor:
        settings = {
            "max_new_tokens": 6,
            "min_new_tokens": 6,
            "num_beams": beams,
            "do_sample": False,
            "pad_token_id": 0,
        }
        return model.generate(ids, attention_mask=mask, use_cache=cached, **settings)[:, ids.shape[1] :]

    with_cache = written(batch, mask, True)
    assert torch.equal(with_cache, written(batch, mask, False))
    assert torch.equal(with_cache[:1], written(short, torch.ones_like(short), True))
    assert torch.equal(with_cache[1:], written(long, torch.ones_like(long), True))


def test_a_cache_from_before_attach_is_refused():
    model = model_of("gpt2")
    with torch.no_grad():
        cache = model(ids_of(), use_cache=True).past_key_values
    vnait.attach(model, "vnait-causal")
    with pytest.raises(
        InputError, match=r"the cache has 20 tokens that were read before the method was attached"
    ):
        model(ids_of(length=1), past_key_values=cache)
    with pytest.raises(InputError, match=r"takes a DynamicCache as its cache, not a tuple"):
        model.transformer(ids_of(length=1), past_key_values=(1, 2))


@pytest.mark.parametrize("family", TWO_SIDED)
@pytest.mark.parametrize("cross", ["source", "target", "relative", None])
def test_an_encoder_decoder_is_the_same_with_a_cache_and_in_a_padded_batch(family, cross):
    model = attached_to(family, cross=cross)
    short, long = ids_of(rows=1, length=5), ids_of(rows=1, length=8)
    real = torch.ones_like(short)
    starts = torch.tensor([[4, 7, 9]])
    alone = logits(model, short, decoder_input_ids=starts, decoder_attention_mask=torch.ones_like(starts))
    for side, beams in [((3, 0), 1), ((0, 3), 3)]:
        batch = torch.cat([nn.functional.pad(short, side), long])
        mask = torch.cat([nn.functional.pad(real, side), torch.ones_like(long)])
        starting = {"decoder_input_ids": starts.expand(2, -1), "decoder_attention_mask": torch.ones(2, 3)}
        got = logits(model, batch, attention_mask=mask, **starting)[:1]
        assert (got - alone).abs().max() <= 2e-5 * alone.abs().max()
        settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
        write = functools.partial(model.generate, num_beams=beams, **settings)
        with_cache = write(batch, attention_mask=mask, use_cache=True)
        assert torch.equal(with_cache, write(batch, attention_mask=mask, use_cache=False))
        assert torch.equal(with_cache[:1], write(short, attention_mask=real, use_cache=True))


def test_words_narrower_than_the_position_table_are_refused_and_the_table_is_seen():
    """As in opt-350m, which projects its words."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 48}
    config = transformers.OPTConfig(
        vocab_size=60, word_embed_proj_dim=16, do_layer_norm_before=False, **sizes
    )
    model = transformers.OPTForCausalLM(config).eval()
    (source,) = vnait.audit(model).sources
    assert source.path == "model.decoder.embed_positions" and source.active
    with pytest.raises(InputError, match=r"its words have 16 numbers, and its position table .* has 32"):
        vnait.attach(model, "vnait-causal")


def test_padded_labels_of_an_encoder_decoder_that_reads_places_off_its_ids_give_the_same_loss():
    """M2M100 shifts labels to a decoder's ids, padded at the end, and passes no mask for them."""
    sizes = {"layers": 1, "attention_heads": 2, "ffn_dim": 48}
    layers = {f"{side}_{part}": size for side in ("encoder", "decoder") for part, size in sizes.items()}
    config = transformers.M2M100Config(vocab_size=60, d_model=32, **layers)
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    ids, labels = ids_of(rows=2, length=6), torch.tensor([[7, 8, 9, 2], [7, 2, -100, -100]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    loss = model(**inputs, labels=labels).loss
    vnait.attach(model)
    assert torch.allclose(model(**inputs, labels=labels).loss, loss, atol=1e-5)
    model(**inputs, labels=labels).loss.backward()
    with pytest.raises(InputError, match="input_ids have padding"):  # before a word it counts
        model(**inputs, decoder_input_ids=torch.tensor([[1, 7, 8], [2, 7, 8]]))


@pytest.mark.parametrize("family", TWO_SIDED)
def test_position_in_cross_attention_starts_at_zero_and_learns(family):
    before = logits(model_of(family), ids_of())
    trained = {}
    for cross in ["source", "target", "relative"]:
        model = model_of(family)
        vnait.attach(model, cross=cross)
        assert (logits(model, ids_of()) - before).abs().max() <= 1e-5 * before.abs().max()
        last = vnait.audit(model).sources[-1]
        assert last.path.endswith("decoder.vnait.crossing") and last.active
        forward(model, ids_of()).logits.square().mean().backward()
        crossing = sides(model)[1].crossing
        first = crossing.buckets.weight if cross == "relative" else crossing.place.gate
        assert first.grad.abs().max() > 0
        trained[cross] = logits(attached_to(family, cross=cross), ids_of())
    plain = logits(attached_to(family), ids_of())
    assert all(not torch.allclose(found, plain, atol=1e-2) for found in trained.values())


def test_a_target_that_begins_with_padding_is_read_token_by_token():
    model = attached_to("t5", cross="target")
    ids, mask = ids_of(rows=2, length=4), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    states, cache, parts = torch.randn(2, 3, 16), None, []
    (_, decoder) = attached_owners(model).values()
    with torch.no_grad():
        for end in range(1, 5):
            output = decoder(
                input_ids=ids[:, end - 1 : end],
                attention_mask=mask[:, :end],
                encoder_hidden_states=states,
                past_key_values=cache,
                use_cache=True,
            )
            cache = output.past_key_values
            parts.append(output.last_hidden_state)
        whole = decoder(input_ids=ids, attention_mask=mask, encoder_hidden_states=states).last_hidden_state
    real = mask.bool()
    torch.testing.assert_close(torch.cat(parts, 1)[real], whole[real], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", TWO_SIDED)
def test_crossing_symmetries(family):
    """STUDIES B2 on the whole model: whether cross-attention sees the order of the source's words."""
    ids, permuted = ids_of(rows=1, length=6), [3, 0, 5, 1, 4, 2]
    changed = {}
    for cross in ["source", "target", "relative", None]:
        model = attached_to(family, cross=cross)
        decoder = list(attached_owners(model).values())[1]
        for side in sides(model):  # leaves position in cross-attention only
            side.gate.data.zero_()
        states = torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            one, two = (
                decoder(input_ids=ids, encoder_hidden_states=source, attention_mask=torch.ones_like(ids))[0]
                for source in (states, states[:, permuted])
            )
        changed[cross] = float((one - two).abs().max())
    assert changed["target"] <= 1e-4 and changed[None] <= 1e-4
    assert changed["source"] > 1e-2 and changed["relative"] > 1e-2


def test_relative_cross_attention_needs_an_attention_that_adds_it():
    model = attached_to("bart", cross="relative")
    model.set_attn_implementation("eager")
    with pytest.raises(InputError, match='eager attention ignores the bias of cross="relative"; call'):
        logits(model, ids_of())
    t5 = attached_to("t5", cross="relative")
    before = logits(t5, ids_of())
    t5.set_attn_implementation("eager")
    assert torch.allclose(logits(t5, ids_of()), before, atol=1e-4)


def test_a_family_is_added_in_a_line():
    """Its table has a name that structure does not recognize."""
    model = model_of("bert")
    model.config.model_type = "one-of-mine"
    embeddings = model.bert.embeddings
    embeddings.whereabouts = embeddings.position_embeddings
    del embeddings.position_embeddings
    embeddings.forward = functools.partial(_with_whereabouts, embeddings)
    before = logits(model, ids_of())
    with pytest.raises(InputError, match=r"found nothing; take one of .* vnait.pretrained.FAMILIES"):
        vnait.attach(model)
    TYPES["one-of-mine"] = Family(tables=("embeddings.whereabout",))
    try:
        with pytest.raises(
            InputError, match=r"BertModel has no embeddings.whereabout, which vnait.pretrained.FAMILIES"
        ):
            vnait.attach(model)
        TYPES["one-of-mine"] = Family(tables=("embeddings.whereabouts",))
        assert vnait.attach(model).difference <= 2e-6
    finally:
        del TYPES["one-of-mine"]
    assert torch.allclose(logits(model, ids_of()), before, atol=1e-5)


def _with_whereabouts(
    embeddings: Any,
    input_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    position_ids: Tensor | None,
    **kwargs: Any,
) -> Tensor:
    vectors = embeddings.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
    places = torch.arange(vectors.shape[1]) if position_ids is None else position_ids
    return embeddings.LayerNorm(vectors + embeddings.whereabouts(places))


def test_places_past_a_table_read_its_last_row():
    rows = torch.randn(17, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Rows(rows).read(torch.tensor([[16.0, 99.0, 3.0]]))[0], rows[[16, 16, 3]])


@pytest.mark.parametrize("family", ROTARY)
def test_a_rotation_by_learned_places(family):
    """Running(content) is the index before training, and real places afterwards."""
    model, ids = model_of(family), ids_of()
    before = logits(model, ids)
    own = Method(coordinates=Running(source="content", dim=16), encoding=Rotary(width=8))
    report = vnait.attach(model, own)
    assert report.difference <= 2e-5  # R starts at 1, and rotations are relative
    assert torch.allclose(logits(model, ids), before, atol=1e-4)
    model(ids).logits.square().mean().backward()
    tell = own.coordinates.source.tell
    assert tell.weight.grad.abs().max() > 0
    with torch.no_grad():
        tell.bias.add_(1)
    assert not torch.allclose(logits(model, ids), before, atol=1e-2)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in OWN_ATTENTION])
def test_a_bias_works_if_the_attention_accepts_one(family):
    model, ids = model_of(family), ids_of(length=12)
    vnait.attach(model, "alibi", warm_start=None)
    expected = logits(model, ids)
    padded = logits(
        model, nn.functional.pad(ids, (2, 0)), attention_mask=nn.functional.pad(torch.ones_like(ids), (2, 0))
    )
    assert torch.allclose(padded[:, 2:], expected, atol=2e-5)
    shuffled = ids[:, [3, 0, 5, 1, 4, 2, 6, 7, 8, 9, 10, 11]]
    assert not torch.allclose(logits(model, shuffled)[:, -1], expected[:, -1], atol=2e-4)
    if family in DECODERS:
        with torch.no_grad():
            first = model(ids[:, :7], use_cache=True)
            rest = model(ids[:, 7:8], past_key_values=first.past_key_values)
        assert torch.allclose(rest.logits[:, 0], expected[:, 7], atol=2e-5)
    model.set_attn_implementation("eager")
    with pytest.raises(InputError, match=r"eager attention ignores the bias of the method"):
        model(ids)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
def test_a_bias_equals_a_mask_of_numbers(family):
    """Compared with the model without its table and the same numbers as a 4-D mask."""
    model, plain, ids = model_of(family), model_of(family), ids_of(length=12)
    vnait.attach(model, "alibi", warm_start=None)
    with torch.no_grad():
        next(weight for name, weight in plain.named_parameters() if name.endswith(_TABLES)).zero_()
    mask = torch.ones_like(ids)
    bias = attached_owner(model).vnait.method(torch.zeros(2, 12, 16), mask.bool()).injection.dense().bias
    assert torch.allclose(logits(model, ids), logits(plain, ids, attention_mask=bias), atol=2e-5)


WITHOUT_ROTATION = [name for name in FAMILIES if name not in [*ROTARY, *OWN_ATTENTION, "electra"]]


@pytest.mark.parametrize("family", WITHOUT_ROTATION)
def test_a_model_without_a_rotation_rotates_by_the_methods_angles(family):
    model, ids = model_of(family), ids_of(length=12)
    kinds = [owner.config._attn_implementation for owner in owners_of(model).values()]
    vnait.attach(model, "rope", warm_start=None)
    expected = logits(model, ids)
    pad = nn.functional.pad
    padded = logits(model, pad(ids, (2, 0)), attention_mask=pad(torch.ones_like(ids), (2, 0)))
    assert (padded[:, 2:] - expected).abs().max() <= 2e-5 * expected.abs().max()
    shuffled = ids[:, [3, 0, 5, 1, 4, 2, 6, 7, 8, 9, 10, 11]]
    assert not torch.allclose(logits(model, shuffled)[:, -1], expected[:, -1], atol=2e-4)
    assert vnait.audit(model).leftover < 1e-5
    if family in DECODERS:
        with torch.no_grad():
            first = model(ids[:, :7], use_cache=True)
            rest = model(ids[:, 7:], past_key_values=first.past_key_values).logits
        assert torch.allclose(rest, expected[:, 7:], atol=2e-5)
    owner = next(iter(attached_owners(model).values()))
    owner.set_attn_implementation("eager")
    with pytest.raises(
        InputError, match=r"eager attention ignores the rotation of the method; call .*vnait_rotary"
    ):
        model(ids)
    vnait.detach(model)
    assert [owner.config._attn_implementation for owner in owners_of(model).values()] == kinds
    assert torch.equal(logits(model, ids), logits(model_of(family), ids))


def test_rotary_attention_is_the_formula():
    """softmax(R_i q_i . R_j k_j / sqrt(K)) v of the layer's own q, k, v, by pairs in complex numbers."""
    model, ids = model_of("bert", num_hidden_layers=1), ids_of(rows=1, length=9)
    vnait.attach(model, "rope", warm_start=None)
    seen: dict[str, Tensor] = {}
    attention = model.bert.encoder.layer[0].attention.self
    for name in ("query", "key", "value"):
        part = getattr(attention, name)
        part.register_forward_hook(
            lambda module, args, output, name=name: seen.update({name: output.double()})
        )
    attention.register_forward_hook(lambda module, args, output: seen.update(mixed=output[0].double()))
    logits(model, ids)
    query, key, value = (
        seen[name].unflatten(-1, (2, 8)).transpose(1, 2) for name in ("query", "key", "value")
    )
    angles = torch.arange(9.0).double()[:, None] * 10_000 ** (-torch.arange(4).double() / 4)
    rotation = torch.polar(torch.ones_like(angles), angles)
    query, key = (torch.complex(part[..., :4], part[..., 4:]) * rotation for part in (query, key))
    scores = (query @ key.conj().transpose(-1, -2)).real / 8**0.5
    expected = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    assert torch.allclose(seen["mixed"], expected, atol=1e-5)


def test_a_learned_bias_gets_its_gradient():
    model = model_of("bert")
    vnait.attach(model, "t5", warm_start=None)
    model(ids_of()).logits.square().mean().backward()
    assert all(weight.grad.abs().max() > 0 for weight in attached_owner(model).vnait.parameters())


@every_family
def test_an_audit_names_the_sources_and_finds_no_other(family):
    model = model_of(family)
    before = vnait.audit(model)
    kind = (
        "rotation"
        if family in ROTARY
        else "bias of distances"
        if family in ["bloom", "t5", "umt5"]
        else "position table"
    )
    assert {source.kind for source in before.sources} == {kind}
    per_layer = family in ["umt5", "gptj"]
    assert len(before.sources) == (2 if family in TWO_SIDED else 1) * (2 if per_layer else 1)
    assert before.leftover > 1e-3
    vnait.attach(model, method_of(family), warm_start=None)
    after = vnait.audit(model)
    assert len(after.sources) == len(before.sources) + len(sides(model))
    assert after.leftover < 1e-5
    assert all(source.path.endswith("vnait") == source.active for source in after.sources)


def test_an_audit_after_a_backward_pass_shares_out_the_gradient():
    model = model_of("bert").train()
    vnait.attach(model, "vnait")
    assert vnait.audit(model).gradient == {}
    model(ids_of(length=8))[0].square().sum().backward()
    shares = vnait.audit(model).gradient
    assert {"coordinates", "encoding", "layers"} < set(shares) and sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(("warm_start", "active"), [("exact", True), (None, False)])
def test_a_rotation_that_the_methods_places_drive_is_active(warm_start, active):
    model = model_of("llama")
    vnait.attach(model, "vnait-causal", warm_start=warm_start)
    (rotation,) = [source for source in vnait.audit(model).sources if source.kind.startswith("rotation")]
    assert rotation.active == active


@pytest.mark.parametrize("family", ONE_SIDED)
def test_one_layer_with_all_coordinates_at_zero_ignores_the_order(family):
    """The claim of `audit`, checked without it."""
    layers = (
        "n_layers"
        if family == "distilbert"
        else "n_layer"
        if family in ["gpt2", "bloom", "gptj"]
        else "num_layers"
        if family == "xglm"
        else "num_hidden_layers"
    )
    model = model_of(family, **{layers: 1})
    vnait.attach(model, method_of(family))
    attached_owner(model).vnait.disabled = True
    ids = ids_of(length=7)
    one, two = logits(model, ids), logits(model, ids[:, [4, 2, 0, 5, 1, 3, 6]])
    assert torch.allclose(one[:, -1], two[:, -1], atol=2e-5)
    attached_owner(model).vnait.disabled = False
    one, two = logits(model, ids), logits(model, ids[:, [4, 2, 0, 5, 1, 3, 6]])
    assert not torch.allclose(one[:, -1], two[:, -1], atol=1e-3)


class Convolved(transformers.BertModel):
    """Position from a place that `attach` does not find."""

    def forward(
        self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, **kwargs: Any
    ) -> Any:
        vectors = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        return super().forward(inputs_embeds=vectors + vectors.roll(1, 1), **kwargs)


def test_position_from_elsewhere_is_measured_and_refused():
    model = Convolved(transformers.BertConfig(**SMALL)).eval()
    ids = ids_of()
    before = model(ids).last_hidden_state
    with pytest.raises(InputError, match=r"encodes position in a way that was not found: without embeddings"):
        vnait.attach(model)
    assert torch.equal(model(ids).last_hidden_state, before)
    assert vnait.audit(model).leftover > 1e-3


def deberta() -> nn.Module:
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.DebertaV2Config(
        vocab_size=50, **small, relative_attention=True, pos_att_type=["c2p"], position_biased_input=False
    )
    return transformers.DebertaV2Model(config)


def longt5() -> nn.Module:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "local_radius": 4}
    return transformers.LongT5Model(transformers.LongT5Config(vocab_size=50, **sizes))


def canine() -> nn.Module:
    small = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "num_hash_buckets": 16,
    }
    return transformers.CanineModel(transformers.CanineConfig(**small, max_position_embeddings=64))


def scaled() -> Method:
    return Method(coordinates=Index(), encoding=Sinusoid(dim=16), scale=LogLength(mean_length=24))


REFUSED: dict[str, tuple[str | Callable[[], nn.Module], dict[str, Any], str]] = {
    "not a causal method": (
        "gpt2",
        {"method": "vnait"},
        "vnait lets tokens depend on later ones, and GPT2LMHeadModel reads from left to right; take a causal "
        "method",
    ),
    "rope without a rotation": (
        "bert",
        {"method": "rope"},
        "rope has a rotation, which replaces BertForMaskedLM's positions .* give warm_start=None",
    ),
    "a rotation of its own": ("llama", {"method": "rope-yarn"}, "rope-yarn rotates in its own way"),
    "another base": (
        "llama",
        {"method": Method(coordinates=Index(), encoding=Rotary(width=8, base=100.0))},
        "rotates in its own way, and LlamaForCausalLM keeps its own base",
    ),
    "narrow words": (
        "electra",
        {"method": "rope", "warm_start": None},
        r"rotates heads of width 4, and those of Ele\w+ have width 8; give a Method with Rotary\(width=8\)",
    ),
    "a rotation that is ignored": (
        "bloom",
        {"method": "rope", "warm_start": None},
        "rope has a rotation, and the attention of BloomForCausalLM does not accept one",
    ),
    "stretch": ("llama", {"method": "xpos"}, "xpos rotates in its own way"),
    "a scale": ("bert", {"method": scaled()}, "Sinusoid has a scale, which BertForMaskedLM can't apply"),
    "scores of its own": (
        "bert",
        {"method": "cope", "warm_start": None},
        r"cope changes the attention scores inside the layers \(score_mod\), and those of BertForMas.* can't",
    ),
    "scores of its own, in a decoder": (
        "llama",
        {"method": "scale-invariant"},
        "scale-invariant changes the attention scores inside the layers .* those of LlamaForCausalLM can't",
    ),
    "half of a rotation": ("modernbert", {"method": "rope-p"}, "rope-p rotates in its own way"),
    "a warm bias": ("bert", {"method": "alibi"}, "alibi has a bias, .* give warm_start=None"),
    "nothing, warm": ("llama", {"method": "none"}, "none adds no position to LlamaForCausalLM"),
    "another width": (
        "bert",
        {"method": Method(coordinates=Index(), encoding=Sinusoid(dim=12))},
        "does not fit BertForMaskedLM: build it for dim=16",
    ),
    "other heads": (
        "bert",
        {"method": Method(coordinates=Index(), encoding=AlibiBias(num_heads=3)), "warm_start": None},
        "has a bias for 3 heads, and BertForMaskedLM has 2",
    ),
    "a start": ("bert", {"warm_start": "hot"}, "warm_start='hot' is not known"),
    "an option": ("bert", {"speed": 3}, "attach has no option speed"),
    "options of a built method": (
        "bert",
        {"method": Method(coordinates=Index(), encoding=NoPosition()), "mean_length": 3},
        "options mean_length don't apply to a Method",
    ),
    "a decoder without one": (
        "bert",
        {"decoder": "vnait-causal"},
        "decoder= is for an encoder-decoder, and BertForMaskedLM has one side",
    ),
    "one method for two sides": (
        "t5",
        dict.fromkeys(("method", "decoder"), Method(coordinates=Index(), encoding=Sinusoid(dim=16))),
        r"both sides of T5.* got the same Method .*give decoder=copy.deepcopy\(method\)",
    ),
    "nothing to cross": ("gpt2", {"cross": "source"}, "cross= is for an encoder-decoder"),
    "a crossing": ("t5", {"cross": "both"}, "cross='both' is not known; take source, target"),
    "a decoder that sees the future": (
        "t5",
        {"decoder": "vnait"},
        "vnait lets tokens depend on later ones, and T5ForConditionalGeneration reads from left to right",
    ),
    "a bias that is ignored": (
        "bloom",
        {"method": "alibi", "warm_start": None},
        "alibi has a bias, and the attention of BloomForCausalLM does not accept one",
    ),
    "a table that ends": (
        "bert",
        {"method": "learned", "max_length": 2},
        "learned can't read 3 tokens as it was built",
    ),
    "a bias inside": (deberta, {}, "DebertaV2Model also encodes position inside its layers .*rel_embeddings"),
    "a bias of blocks": (longt5, {}, "LongT5Model can't be attached to: its encoder adds one bias of dist"),
    "no words": (canine, {}, "CanineModel can't be attached to: .* it has none; take one of BERT"),
    "no transformer": (
        lambda: nn.Linear(2, 2),
        {},
        "Linear can't be attached to: .* it has none; take one of BERT",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_method_leaves_the_model_unchanged(case):
    start, options, message = REFUSED[case]
    model = model_of(start) if isinstance(start, str) else start()
    keys = list(model.state_dict())
    with unchecked(), pytest.raises(InputError, match=message):
        vnait.attach(model, **options)
    assert list(model.state_dict()) == keys
    assert not any(part._forward_pre_hooks for part in model.modules())


class Drawing(transformers.BertModel):
    """Its states depend on whether it got ids or vectors."""

    def forward(
        self, *args: Any, inputs_embeds: Tensor | None = None, input_ids: Tensor | None = None, **kwargs: Any
    ) -> Any:
        output = super().forward(*args, inputs_embeds=inputs_embeds, input_ids=input_ids, **kwargs)
        output["last_hidden_state"] = output[0] + (0 if input_ids is None else 1)
        return output


def test_an_exact_start_that_is_not_exact_is_refused():
    model = Drawing(transformers.BertConfig(**SMALL)).eval()
    with pytest.raises(InputError, match=r"Drawing differs by .* of its states after an exact start"):
        vnait.attach(model)
    assert not any(part._forward_pre_hooks for part in model.modules())
    assert vnait.attach(model, warm_start=None).difference > 0.5


def test_a_declaration_does_not_make_a_model_causal():
    model = model_of("bert").bert
    model.encoder.layer[0].attention.self.is_causal = True
    assert not is_causal(model)


def test_experts_read_from_left_to_right():
    """The last digit of a token's state depends on how many tokens its expert has."""
    config = transformers.OlmoeConfig(**GROUPED, num_experts=4, num_experts_per_tok=2)
    model = transformers.OlmoeForCausalLM(config).eval()
    assert vnait.attach(model, "vnait-causal").difference <= 1e-5


def test_a_model_has_one_method():
    model = model_of("bert")
    vnait.attach(model)
    with pytest.raises(InputError, match=r"BertForMaskedLM has a method attached already; .* vnait.detach"):
        vnait.attach(model, "sinusoidal")
    vnait.detach(model)
    with pytest.raises(InputError, match=r"BertForMaskedLM has no method attached; call vnait.attach"):
        vnait.detach(model)


def test_peft_comes_after():
    class Lora(nn.Linear):
        __module__ = "peft.tuners.lora.layer"

    model = model_of("bert")
    model.cls.predictions.transform.dense = Lora(16, 16)
    with pytest.raises(InputError, match=r"attach first, then call get_peft_model"):
        vnait.attach(model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"attention_mask": torch.ones(2, 1, 20, 20)},
            r"attention_mask of \(2, 1, 20, 20\); give \(sentences, tokens\)",
        ),
        ({"attention_mask": torch.ones(2, 19)}, "attention_mask has 19 tokens, and the text has 20"),
        ({"position_ids": torch.arange(20)[None] // 2}, "position_ids differ from the index of the tokens"),
    ],
)
def test_inputs_that_would_give_wrong_results_are_refused(changes, message):
    model = model_of("bert")
    vnait.attach(model)
    with pytest.raises(InputError, match=message):
        model(ids_of(), **changes)
    assert torch.equal(logits(model, ids_of()), logits(model, ids_of(), position_ids=torch.arange(20)[None]))


COMPILED = """
import torch, vnait
from families import attached_to, ids_of
torch.set_grad_enabled(False)
for family, more in (("bert", {}), ("llama", {"use_cache": False})):
    model, ids, index = attached_to(family), ids_of(), torch.arange(20)[None]
    compiled = torch.compile(model, backend="eager")
    found = compiled(input_ids=ids, position_ids=index, **more).logits
    assert torch.equal(found, model(input_ids=ids, **more).logits)
    try:
        compiled(input_ids=ids, position_ids=index % 10, **more)
    except RuntimeError as error:
        assert "position_ids differ from the index of the tokens" in str(error), error
    else:
        raise AssertionError(f"{family} took them")
"""


@pytest.mark.long
@pytest.mark.slow
def test_other_position_ids_end_a_compiled_model_too():
    """Packed texts would read one another. In a process without the tests' check of types, which the compiler
    can't follow.
    """
    python(COMPILED, cwd=Path(families.__file__).parent)


WINDOW = {**GROUPED, "sliding_window": 8}
SLIDING = {
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**WINDOW)),
    "gemma3": lambda: transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(**WINDOW, layer_types=["sliding_attention", "full_attention"])
    ),
}


@pytest.mark.parametrize("method", ["alibi", "t5", "vnait-causal"])
@pytest.mark.parametrize("family", SLIDING)
def test_a_cache_of_a_window_fits_the_bias(family, method):
    """It has dropped the first keys."""
    torch.manual_seed(0)
    model, ids = SLIDING[family]().eval(), ids_of()
    own = model.config._attn_implementation
    vnait.attach(model, method, warm_start=None)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
        whole, cache = model(ids, use_cache=False).logits, transformers.DynamicCache(config=model.config)
        parts = [model(part, past_key_values=cache).logits for part in ids.split([11, 4, 1, 4], 1)]
    assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-5)
    vnait.detach(model)
    assert model.config._attn_implementation == own


@pytest.mark.parametrize("method", ["rope", "alibi"])
def test_a_cache_of_fixed_length_is_refused_where_it_does_not_fit(method):
    model = model_of("gpt2")
    vnait.attach(model, method, warm_start=None)
    settings = {"max_new_tokens": 2, "do_sample": False}
    assert model.generate(ids_of(), **settings).shape[1] == 22
    with pytest.raises(InputError, match=r"not a StaticCache; for generate, give cache_implementation='dyn"):
        model.generate(ids_of(), **settings, cache_implementation="static")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bert", "vnait"), "takes a model of transformers, not 'bert'"),
        (
            (nn.Linear(1, 1), ["vnait", "rope"]),
            r"\['vnait', 'rope'\] is not a method; a model has exactly one",
        ),
    ],
)
def test_what_is_no_model_or_no_method_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        vnait.attach(*arguments)


def test_roberta_starts_after_its_padding_row():
    model = model_of("roberta", pad_token_id=1)
    vnait.attach(model)
    assert attached_owner(model).vnait.first_row == 2
    assert len(attached_owner(model).vnait.old.weight) == ROWS - 2
    assert torch.equal(
        logits(model, ids_of()), logits(model, ids_of(), position_ids=torch.arange(2, 22)[None])
    )


def checkpoint(model: Any, settings: dict[str, Any] | None = None) -> None:
    """transformers has renamed the method."""
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)(settings)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "bloom", "t5", "bart"])
def test_gradient_checkpointing_gives_the_same_gradients(family):
    gradients = []
    for checkpointing in (False, True):
        model = attached_to(family)
        for side in sides(model):
            without_noise(side.method)  # two runs would draw two numbers
        for part in model.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
            elif isinstance(getattr(part, "dropout", None), float):
                part.dropout = 0.0
        if checkpointing:
            checkpoint(model)
        forward(model.train(), ids_of()).logits.square().mean().backward()
        gradients.append(
            {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        )
    plain, again = gradients
    assert plain.keys() == again.keys()
    # float32 rounding through a model of enlarged weights, relative to each gradient
    assert all((plain[name] - again[name]).abs().max() <= 1e-4 * plain[name].abs().max() for name in plain)


def test_reentrant_checkpointing_of_a_rotation_is_refused():
    model = attached_to("llama").train()
    checkpoint(model, {"use_reentrant": True})
    with pytest.raises(InputError, match=r"reentrant gradient checkpointing loses the gradient"):
        model(ids_of())


@pytest.mark.parametrize(("method", "refused"), [("kerple", True), ("alibi", False), ("vnait", False)])
def test_reentrant_checkpointing_of_what_is_learned_in_the_layers_is_refused(method, refused):
    model = model_of("bert").train()
    vnait.attach(model, method, warm_start=None)
    checkpoint(model, {"use_reentrant": True})
    with pytest.raises(InputError, match="reentrant") if refused else nullcontext():
        model(ids_of()).logits.sum().backward()


@pytest.mark.parametrize("width", [2, 4, 12])
def test_windows_of_deeper_layers_are_no_unknown_position(width):
    """They show the order of the tokens, which the first layer of ModernBERT mixes."""
    torch.manual_seed(0)
    config = transformers.ModernBertConfig(**SMALL, local_attention=width, initializer_cutoff_factor=9.0)
    model = transformers.ModernBertModel(config).eval()
    assert vnait.attach(model, "vnait").difference == 0


def test_a_dynamic_rotation_is_left_as_it_was():
    """Its frequencies follow the longest text, so that attaching must not read one past its limit."""
    torch.manual_seed(0)
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
    config = transformers.LlamaConfig(**{**SMALL, "max_position_embeddings": 16}, rope_parameters=rope)
    model = transformers.LlamaForCausalLM(config).eval()
    fresh = copy.deepcopy(model)
    vnait.attach(model, "vnait-causal")
    vnait.detach(model)
    ids = torch.randint(3, SMALL["vocab_size"], (1, 40))
    assert torch.equal(logits(model, ids), logits(fresh, ids))


def test_positions_just_below_the_end_of_a_dynamic_rotation_are_refused_too():
    """transformers takes the longest text from the largest position, rounded by nothing."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
    config = transformers.LlamaConfig(**{**SMALL, "max_position_embeddings": 16}, rope_parameters=rope)
    rotary = DifferentiableRotary(transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config))
    states = torch.zeros(1, 2, SMALL["hidden_size"])
    rotary(states, torch.tensor([[0.0, 15.0]]))
    with pytest.raises(InputError, match="follow the longest text of a call past 16"):
        rotary(states, torch.tensor([[0.0, 15.5]]))


@pytest.mark.parametrize("method", ["t5", "alibi"])
def test_a_bias_that_attention_ignores_is_refused_though_it_starts_at_zero(method):
    model = transformers.StableLmForCausalLM(transformers.StableLmConfig(**SMALL, num_key_value_heads=2))
    with pytest.raises(InputError, match="the attention of StableLmForCausalLM does not accept one"):
        vnait.attach(model, method, warm_start=None)


def test_in_bfloat16_the_method_is_computed_in_float32():
    model = model_of("bert").to(torch.bfloat16)
    before = logits(model, ids_of())
    vnait.attach(model)
    assert all(weight.dtype == torch.float32 for weight in attached_owner(model).vnait.parameters())
    assert logits(model, ids_of()).dtype == torch.bfloat16
    assert (logits(model, ids_of()) - before).abs().max() <= 0.05 * before.abs().max()


def test_attach_and_audit_ignore_autocast():
    """In bfloat16 an exact start would look inexact, and another position like rounding."""
    model, plain = model_of("bert"), model_of("bert")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, audit = vnait.attach(model), vnait.audit(model)
    assert found.difference == vnait.attach(plain).difference < 1e-5
    assert audit == vnait.audit(plain)


def test_a_larger_vocabulary_and_tied_weights():
    model = attached_to("gpt2")
    expected = logits(model, ids_of())
    model.resize_token_embeddings(60, mean_resizing=False)
    assert torch.equal(logits(model, ids_of())[..., :50], expected)
    assert model.lm_head.weight is model.get_input_embeddings().weight


def test_methods_without_words_and_parameters():
    model, ids = model_of("gpt2"), ids_of(length=10)
    vnait.attach(model, "sinusoidal", warm_start=None)
    first = model(ids[:, :6], use_cache=True)
    rest = model(ids[:, 6:], past_key_values=first.past_key_values).logits
    assert torch.allclose(rest, logits(model, ids)[:, 6:], atol=2e-5)


def test_a_method_attached_by_name_drops_its_scale(caplog):
    model = model_of("bert")
    with caplog.at_level(logging.INFO, logger="vnait"):
        report = vnait.attach(model, "vnait", mean_length=12)
    attached = attached_owner(model).vnait
    assert isinstance(attached, Attached) and attached.method.scale is None
    assert "vnait is attached without its scale" in caplog.text
    assert f"differ by at most {report.difference:.2g}" in caplog.text


def test_an_adapter_is_loaded_without_notes_on_how_its_method_starts(tmp_path, caplog):
    model = model_of("bert")
    vnait.attach(model, "vnait", mean_length=12)
    save_adapter(model, tmp_path)
    with caplog.at_level(logging.INFO, logger="vnait"):
        load_adapter(model_of("bert"), tmp_path)
    assert not caplog.text


def test_an_adapter_of_a_method_object(tmp_path):
    def own() -> Method:
        return Method(coordinates=Index(), encoding=Sinusoid(dim=16))

    model = model_of("bert")
    vnait.attach(model, own())
    save_adapter(model, tmp_path / "adapter")
    with pytest.raises(
        InputError, match=r"weights of a Method of your own \(Index x Sinusoid\); give it as method="
    ):
        load_adapter(model_of("bert"), tmp_path / "adapter")
    load_adapter(model_of("bert"), tmp_path / "adapter", method=own())
    with pytest.raises(InputError, match=r"does not fit: its weights aren't those of"):
        load_adapter(
            model_of("bert"), tmp_path / "adapter", method=vnait.build("learned", dim=16, max_length=50)
        )


def test_damaged_adapters_are_refused(tmp_path):
    folder = tmp_path / "adapter"
    with pytest.raises(InputError, match=r"is not an adapter: it has no vnait.json"):
        load_adapter(model_of("bert"), folder)
    with pytest.raises(InputError, match=r"has no method attached"):
        save_adapter(model_of("bert"), folder)
    model = model_of("bert")
    vnait.attach(model)
    save_adapter(model, folder)
    (folder / "notes.txt").write_text("precious")
    with pytest.raises(InputError, match=r"is a folder with other files in it \(notes.txt\)"):
        save_adapter(model, folder)
    (folder / "notes.txt").unlink()
    with pytest.raises(InputError, match=r"is the adapter of the method vnait; leave method= out"):
        load_adapter(model_of("bert"), folder, method=scaled())
    settings = json.loads((folder / "vnait.json").read_text())
    data = (folder / "vnait.safetensors").read_bytes()
    (folder / "vnait.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(InputError, match=r"is damaged: its checksum is not the one in vnait.json"):
        load_adapter(model_of("bert"), folder)
    (folder / "vnait.safetensors").unlink()
    with pytest.raises(InputError, match=r"is damaged: it has no vnait.safetensors"):
        load_adapter(model_of("bert"), folder)
    (folder / "vnait.json").write_text(json.dumps({**settings, "format": 99}))
    with pytest.raises(InputError, match=r"is not of format 5"):
        load_adapter(model_of("bert"), folder)
    (folder / "vnait.json").write_text("{")
    with pytest.raises(InputError, match=r"is damaged"):
        load_adapter(model_of("bert"), folder)


def test_an_adapter_fits_the_same_base_with_another_head(tmp_path):
    """The checksum leaves heads out."""
    model = model_of("distilbert")
    vnait.attach(model)
    save_adapter(model, tmp_path / "adapter")
    config = transformers.DistilBertConfig(**FAMILIES["distilbert"][2])
    other = transformers.DistilBertForSequenceClassification(config).eval()
    other.distilbert.load_state_dict(model_of("distilbert").distilbert.state_dict())
    assert load_adapter(other, tmp_path / "adapter").owner == ("distilbert",)
