"""The language model: what it reads it reads from left to right, and with a cache it writes what it writes
without one.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import vnait
from conftest import unchecked
from vnait import METHODS, InputError, VnaitConfig, VnaitForCausalLM
from vnait.model.backbone import Encoder
from vnait.positions.cache import causal_mask
from vnait.positions.injection import DistanceBias, Injection

CAUSAL = [name for name in METHODS if vnait.build(name, dim=32, num_heads=4).causal]
# Running, saturating, share of the prefix, counted keys, distances inside the layers.
MODES = ["lpi", "vnait-causal", "prefix", "cope", "fox", "scale-invariant", "nape"]


def model_of(method: str, **settings: object) -> VnaitForCausalLM:
    """Its weights enlarged and all random, so that positions matter."""
    config = VnaitConfig(method=method, vocab_size=50, hidden_size=32, num_attention_heads=4, **settings)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        model = VnaitForCausalLM(config).eval()
        for weight in model.model.method.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    return model


def texts(rows: int = 2, length: int = 14, padded: int = 5) -> tuple[Tensor, Tensor]:
    """Padded on the left, each by fewer than `padded` tokens."""
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 50, (rows, length), generator=random)
    padding = torch.randint(padded, (rows, 1), generator=random)
    mask = (torch.arange(length) >= padding).long()
    return ids * mask, mask


@torch.no_grad()
def in_parts(model: VnaitForCausalLM, ids: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    cache, found, end = None, [], 0
    for part in ids.split(sizes, dim=1):
        end += part.shape[1]
        out = model(part, attention_mask=mask[:, :end], past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        found.append(out.logits)
    return torch.cat(found, 1)


@pytest.mark.parametrize("method", MODES)
def test_every_prefix_of_200_texts_gets_the_numbers_of_one_pass(method):
    model = model_of(method)
    ids, mask = texts(rows=200, length=24, padded=1)
    with torch.no_grad():
        whole = model(ids, attention_mask=mask).logits
    token_by_token = in_parts(model, ids, mask, [1] * 24)
    assert (token_by_token - whole)[mask.bool()].abs().max() <= 1e-5


@pytest.mark.parametrize("method", CAUSAL)
def test_a_first_part_may_be_padding_alone(method):
    model = model_of(method)
    ids, mask = texts(length=9, padded=1)
    mask[1, :5] = 0
    with torch.no_grad():
        whole = model(ids * mask, attention_mask=mask).logits
    found = in_parts(model, ids * mask, mask, [2, 2, 1, 4])
    assert (found - whole)[mask.bool()].abs().max() <= 1e-5


@pytest.mark.parametrize("method", CAUSAL)
def test_parts_padding_and_the_future_change_nothing(method):
    model = model_of(method)
    ids, mask = texts()
    real = mask.bool()
    with torch.no_grad():
        whole = model(ids, attention_mask=mask).logits
        alone = [model(row[keep][None]).logits[0] for row, keep in zip(ids, real, strict=True)]
        other = ids.clone()
        other[:, 12:] = 7
        before = model(other, attention_mask=mask).logits[:, :12]
    assert (in_parts(model, ids, mask, [5, 1, 3, 1, 4]) - whole)[real].abs().max() <= 1e-5
    assert (torch.cat(alone) - whole[real]).abs().max() <= 1e-5
    assert torch.equal(before[real[:, :12]], whole[:, :12][real[:, :12]])


@pytest.mark.parametrize("method", CAUSAL)
def test_padding_between_tokens_is_read_alike_with_a_cache_or_refused(method):
    model = model_of(method)
    ids, mask = texts(length=10, padded=1)
    mask[:, 4] = 0
    with torch.no_grad():
        whole = model(ids * mask, attention_mask=mask).logits
    if model.model.method.lookback:
        with pytest.raises(InputError, match="row 0 of the batch has padding between its tokens"):
            in_parts(model, ids * mask, mask, [6, 4])
        return
    for sizes in ([6, 4], [1] * 10):
        found = in_parts(model, ids * mask, mask, sizes)
        assert (found - whole)[mask.bool()].abs().max() <= 1e-5


def test_the_remedy_for_a_prompt_padded_on_the_right_is_the_left():
    model = model_of("rope")
    ids = torch.tensor([[3, 4, 5, 0, 0], [3, 4, 5, 6, 7]])
    with pytest.raises(InputError, match="pad prompts on the left"):
        model.generate(ids, attention_mask=(ids != 0).long(), max_new_tokens=3, do_sample=False)


@pytest.mark.parametrize("method", MODES)
def test_without_a_mask_padding_stays_padding_in_the_cache(method):
    model = model_of(method)
    ids, _ = texts(padded=6)
    with torch.no_grad():
        whole = model(ids).logits[:, -2:]
        cache = model(ids[:, :-2], use_cache=True).past_key_values
        last = [model(one, past_key_values=cache, use_cache=True).logits for one in ids[:, -2:].split(1, 1)]
    assert (ids == 0).any() and (torch.cat(last, 1) - whole).abs().max() <= 1e-5


@pytest.mark.parametrize("method", [*MODES, "rope", "t5", "learned"])
@pytest.mark.parametrize("beams", [1, 3])
def test_generate_writes_the_same_with_a_cache_and_in_a_padded_batch(method, beams):
    model = model_of(method)
    ids, mask = texts(length=8)

    def written(ids: Tensor, mask: Tensor, cached: bool) -> Tensor:
        settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "num_beams": beams}
        return model.generate(ids, attention_mask=mask, use_cache=cached, **settings)[:, ids.shape[1] :]

    with_cache = written(ids, mask, True)
    assert torch.equal(with_cache, written(ids, mask, False))
    for row in range(2):
        keep = mask[row].bool()
        assert torch.equal(with_cache[row], written(ids[row, keep][None], mask[row, keep][None], True)[0])


def test_what_it_saves_it_loads_and_its_tables_are_one(tmp_path):
    model = model_of("vnait-causal", vector_size=16)
    ids, mask = texts()
    with torch.no_grad():
        output = model(ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100))
    assert model.decoder.weight is model.model.vectors.weight
    model.save_pretrained(tmp_path)
    from transformers import AutoModelForCausalLM

    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.allclose(again(ids, attention_mask=mask).logits, output.logits, atol=1e-6)
        last = again(ids, attention_mask=mask, logits_to_keep=1).logits
    assert torch.allclose(last, output.logits[:, -1:], atol=1e-6)
    shifted = output.logits[:, :-1][mask[:, 1:].bool()]
    expected = torch.nn.functional.cross_entropy(shifted, ids[:, 1:][mask[:, 1:].bool()])
    assert torch.isclose(output.loss, expected, atol=1e-5)


def test_a_method_that_sees_the_future_is_refused():
    with pytest.raises(
        InputError,
        match=r"vnait lets a token depend on what follows it, .* a causal method, such as vnait-caus",
    ):
        VnaitForCausalLM(VnaitConfig(method="vnait", vocab_size=10))


def test_a_mask_of_another_length_is_refused():
    model = model_of("vnait-causal")
    ids, mask = texts()
    with torch.no_grad():
        cache = model(ids, attention_mask=mask, use_cache=True).past_key_values
    with (
        unchecked(),
        pytest.raises(InputError, match=r"attention_mask has 16 tokens, for 14 in the cache and 1 new ones"),
    ):
        model(ids[:, :1], attention_mask=torch.ones(2, 16), past_key_values=cache)


def test_gradients_reach_every_parameter():
    model = model_of("vnait-causal").train()
    for view in model.model.method.inputs.views:
        view.dropout = 0.0  # left out of some texts, a view would have no gradient from them
    ids, mask = texts()
    model(ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss.backward()
    assert all(weight.grad is not None and weight.grad.abs().max() > 0 for weight in model.parameters())


def test_an_injection_of_the_last_tokens_keeps_all_keys():
    line = torch.arange(4.0)[None, None]
    distance = DistanceBias(line=line, formula=lambda far, slope: -slope * far.abs(), heads=(torch.ones(2),))
    output = Injection(
        rotary=torch.arange(8.0).reshape(1, 4, 2), scale=torch.arange(4.0)[None], distance=distance
    )
    last = output.since(2).since(1).dense()
    assert last.bias.shape == (1, 2, 1, 4) and last.bias[0, 0, 0].tolist() == [-3, -2, -1, 0]
    assert last.rotary.tolist() == [[[6, 7]]] and last.scale.tolist() == [[3]]
    assert output.since(0) is output


def test_weights_of_a_decoder_are_what_it_averages_with():
    """The encoder, told per query what it sees: padding sees itself, a token nothing that follows."""
    torch.manual_seed(0)
    encoder = Encoder(dim=8, num_heads=2, intermediate=8, num_layers=1, dropout=0.0)
    keep = causal_mask(torch.tensor([[False, True, True, True]]))
    (weights,) = encoder.weights(torch.randn(1, 4, 8), Injection(), keep)
    assert torch.equal(weights[0, 0] > 0, keep[0])
