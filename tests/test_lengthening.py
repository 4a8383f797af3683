"""`lengthen`: texts within the limit are bit-identical; longer ones are read as each paper's formula says."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModel,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    CohereConfig,
    CohereModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    MistralConfig,
    MistralModel,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedModel,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
    T5Model,
)

import vnait
from vnait import InputError
from vnait.pretrained import lengthen, shorten
from vnait.pretrained.extend import stretching
from vnait.pretrained.extend.stretching import FULL, READINGS, Stretch, self_extended, turned

LIMIT = 16
SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.3,  # so that positions matter
}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
FAMILIES = {
    "bert": lambda: BertModel(BertConfig(**SIZES, max_position_embeddings=LIMIT)),
    "roberta": lambda: RobertaModel(RobertaConfig(**SIZES, max_position_embeddings=LIMIT + 2)),
    "gpt2": lambda: GPT2Model(
        GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=LIMIT, initializer_range=0.3)
    ),
    "llama": lambda: LlamaModel(LlamaConfig(**SIZES, max_position_embeddings=LIMIT)),
    "qwen3": lambda: Qwen3Model(
        Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=8, max_position_embeddings=LIMIT)
    ),
    "modernbert": lambda: ModernBertModel(
        ModernBertConfig(**SIZES, **TOKENS, local_attention=8, max_position_embeddings=LIMIT)
    ),
    "t5": lambda: T5EncoderModel(
        T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    ),
}
KINDS = {"bert": "table", "roberta": "table", "gpt2": "table", "t5": "other"}
CASES = [
    (family, name)
    for family in FAMILIES
    for name, reading in READINGS.items()
    if KINDS.get(family, "rotation") in reading.sources
]


def model_of(family: str) -> Any:
    torch.manual_seed(0)
    return FAMILIES[family]().eval()


def ids_of(rows: int, length: int) -> Tensor:
    return torch.randint(5, 60, (rows, length), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def states(model: Any, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    return model(input_ids=ids, attention_mask=torch.ones_like(ids) if mask is None else mask)[0]


@pytest.mark.parametrize(("family", "reading"), CASES)
def test_texts_within_the_limit_keep_their_bits_beside_longer_ones(family, reading):
    model = model_of(family)
    ids, mask = ids_of(5, 50), torch.ones(5, 50, dtype=torch.long)
    mask[0, 9:] = mask[1, 40:] = mask[3, 45:] = mask[4, LIMIT:] = 0  # rows 1 and 3: three times the limit
    before = states(model, ids[:, :LIMIT], mask[:, :LIMIT])
    lengthen(model, reading, limit=LIMIT, special=(1, 1))
    assert torch.equal(states(model, ids[:, :LIMIT], mask[:, :LIMIT]), before)
    found = states(model, ids, mask)
    assert torch.equal(found[0, :9], before[0, :9]) and torch.equal(found[4, :LIMIT], before[4])
    alone = states(model, ids[1:2, :40])
    torch.testing.assert_close(found[1:2, :40], alone, atol=1e-4, rtol=1e-4)
    left = states(model, ids[1:2].roll(10, 1), mask[1:2].roll(10, 1))
    torch.testing.assert_close(left[:, 10:], alone, atol=1e-4, rtol=1e-4)
    twin = pickle.loads(pickle.dumps(model))
    assert torch.equal(states(twin, ids, mask), found)
    shorten(model)
    assert type(model) is type(model_of(family)) and not model.config.to_dict().get("vnait_long")
    assert torch.equal(states(model, ids[:, :LIMIT], mask[:, :LIMIT]), before)


@pytest.mark.parametrize("reading", ["interpolated", "grouped"])
def test_a_table_is_read_as_one_with_more_rows(reading):
    model = model_of("bert")
    rows = model.embeddings.position_embeddings.weight.detach()
    ids = ids_of(1, 48)
    if reading == "grouped":
        wanted = rows.repeat_interleave(3, 0)
    else:
        wanted = torch.nn.functional.interpolate(rows.T[None], 48, mode="linear", align_corners=True)[0].T
    longer = BertModel(BertConfig(**SIZES, max_position_embeddings=48)).eval()
    longer.load_state_dict({**model.state_dict(), "embeddings.position_embeddings.weight": wanted})
    lengthen(model, reading)
    torch.testing.assert_close(states(model, ids), states(longer, ids), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("reading", "parameters"),
    [
        ("interpolated", {"rope_type": "linear", "factor": 47 / 15}),
        ("ntk", {"rope_type": "default", "rope_theta": 10_000.0 * 3 ** (8 / 6)}),
        ("yarn", {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": LIMIT}),
    ],
)
def test_a_rotation_is_scaled_as_transformers_does(reading, parameters):
    model, ids = model_of("llama"), ids_of(1, 48)
    config = LlamaConfig(**SIZES, max_position_embeddings=48)
    config.rope_parameters = {"rope_theta": 10_000.0, **parameters}
    longer = LlamaModel(config).eval()
    longer.load_state_dict(model.state_dict())
    plain = states(model, ids)
    lengthen(model, reading)
    found = states(model, ids)
    torch.testing.assert_close(found, states(longer, ids), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(found, plain, atol=1e-2)


def test_channels_beyond_the_angles_are_not_rotated():
    x = torch.randn(1, 1, 3, 6)
    found = turned(x, torch.full((1, 3, 2), math.pi))
    torch.testing.assert_close(found, torch.cat([-x[..., :4], x[..., 4:]], -1))


@pytest.mark.parametrize("causal", [False, True])
def test_self_extension_is_its_formula_with_one_loop_per_pair(causal, monkeypatch):
    monkeypatch.setattr(stretching, "QUERIES", 5)
    near, group, length, pairs = 4, 3, 14, 2
    random = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(1, 1, length, 2 * pairs, generator=random, dtype=torch.double) for _ in "qkv"
    )
    turns = torch.tensor([1.0, 0.1], dtype=torch.double)
    stretch = Stretch(
        places=torch.arange(length)[None].double(),
        limit=8,
        factor=2,
        near=near,
        group=group,
        turns={FULL: turns},
    )
    found = self_extended(torch.nn.Identity(), query, key, value, None, stretch, 0.5, causal)
    pair = lambda x: torch.complex(x[..., :pairs], x[..., pairs:])  # noqa: E731
    scores = torch.full((length, length), -torch.inf, dtype=torch.double)
    for i in range(length):
        for j in range(i + 1 if causal else length):
            distance = i - j
            if abs(distance) >= near:
                far = abs(i // group - j // group) + near - near // group
                distance = math.copysign(far, distance)
            turned = pair(query[0, 0, i]) * torch.exp(1j * distance * turns)
            scores[i, j] = 0.5 * (turned * pair(key[0, 0, j]).conj()).real.sum()
    wanted = scores.softmax(-1) @ value[0, 0]
    torch.testing.assert_close(found[0, :, 0], wanted, atol=1e-6, rtol=1e-6)
    half = [x.bfloat16() for x in (query, key, value)]
    found = self_extended(torch.nn.Identity(), *half, None, stretch, 0.5, causal)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found[0, :, 0].double(), wanted, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("reading", ["log-n", "self-extended"])
def test_checkpointed_layers_would_be_computed_again_without_the_reading(reading):
    model = model_of("llama")
    lengthen(model, reading)
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    model.train()
    with pytest.raises(InputError, match=f"without {reading}; train without"):
        model(ids_of(1, 3 * LIMIT))
    model(ids_of(1, LIMIT))
    model.eval()(ids_of(1, 3 * LIMIT))


def test_log_n_multiplies_every_score():
    model, ids = model_of("llama"), ids_of(1, 48)
    longer = copy.deepcopy(model)
    for layer in longer.layers:
        layer.self_attn.scaling *= math.log(48) / math.log(LIMIT)
    wanted = states(longer, ids)
    lengthen(model, "log-n")
    torch.testing.assert_close(states(model, ids), wanted, atol=1e-5, rtol=1e-5)


def test_windows_are_read_alone_and_share_the_special_tokens():
    model, ids = model_of("bert"), ids_of(1, 30)  # 28 words in two windows of 14
    parts = [torch.cat([ids[:, :1], ids[:, some], ids[:, -1:]], 1) for some in (slice(1, 15), slice(15, 29))]
    one, other = (states(model, part) for part in parts)
    lengthen(model, "windows", special=(1, 1))
    found = states(model, ids)
    torch.testing.assert_close(found[:, 1:15], one[:, 1:-1])
    torch.testing.assert_close(found[:, 15:29], other[:, 1:-1])
    torch.testing.assert_close(found[:, 0], (one[:, 0] + other[:, 0]) / 2)
    torch.testing.assert_close(found[:, -1], (one[:, -1] + other[:, -1]) / 2)


@pytest.mark.parametrize("reading", ["windows", "log-n"])
def test_a_saved_folder_is_loaded_as_it_was(reading, tmp_path):
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SIZES, max_position_embeddings=LIMIT)).eval()
    lengthen(model, reading, special=(1, 1))
    ids = ids_of(2, 40)
    model.save_pretrained(tmp_path / "not the main process", False)
    assert not (tmp_path / "not the main process" / "config.json").exists()
    model.save_pretrained(tmp_path)
    from transformers import AutoModelForSequenceClassification

    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    torch.testing.assert_close(states(again, ids), states(model, ids))
    shorten(again)
    with pytest.raises(ValueError, match="quant_method"):
        BertModel.from_pretrained(tmp_path)


def test_gradients_reach_the_table_and_words():
    model = model_of("bert").train()
    lengthen(model, "interpolated")
    model(input_ids=ids_of(2, 40)).last_hidden_state.sum().backward()
    for table in (model.embeddings.position_embeddings, model.embeddings.word_embeddings):
        assert table.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("family", "reading", "options", "words"),
    [
        ("bert", "yarn", {}, "yarn is not for BertModel, which has a position table; take windows, interp"),
        ("bert", "interpolate", {}, "Did you mean 'interpolated'?"),
        ("bert", "grouped", {"limit": 17}, "limit=17 is not possible: BertModel reads 16 tokens"),
        ("t5", "windows", {}, "has no limit of its own; give limit="),
    ],
)
def test_what_can_not_be_lengthened_is_refused(family, reading, options, words):
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        lengthen(model_of(family), reading, **options)


def test_other_models_are_refused_unchanged():
    torch.manual_seed(0)
    two = T5Model(T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4))
    with pytest.raises(InputError, match="give its encoder, such as T5EncoderModel"):
        lengthen(two, "windows", limit=LIMIT)
    pairs = CohereModel(CohereConfig(**SIZES, pad_token_id=0, max_position_embeddings=LIMIT)).eval()
    with pytest.raises(InputError, match="reads a text within its limit otherwise by self-extended"):
        lengthen(pairs, "self-extended")  # it rotates neighbouring channels
    assert type(pairs) is CohereModel and pairs.config._attn_implementation == "sdpa"
    sizes = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": LIMIT}
    windowed = MistralModel(MistralConfig(**sizes, pad_token_id=0)).eval()
    with pytest.raises(InputError, match="each of its layers reads a window of neighbours, which stays"):
        lengthen(windowed, "log-n")
    eager = model_of("llama")
    eager.set_attn_implementation("eager")
    with pytest.raises(InputError, match="needs sdpa attention"):
        lengthen(eager, "log-n")
    model = model_of("bert")
    lengthen(model, "windows")
    for change in (vnait.attach, lambda model: lengthen(model, "grouped")):
        with pytest.raises(InputError, match=r"call vnait\.pretrained\.shorten"):
            change(model)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"position_ids": torch.zeros(1, 40, dtype=torch.long)}, "given with position_ids; leave it out"),
        ({"output_hidden_states": True}, "are not collected"),
        ({"attention_mask": torch.ones(1, 39)}, r"attention_mask is \(1, 39\)"),
    ],
)
def test_inputs_that_long_texts_can_not_have_are_refused(inputs, words):
    model = model_of("bert")
    lengthen(model, "interpolated")
    with pytest.raises(InputError, match=words):
        model(input_ids=ids_of(1, 40), **inputs)


def test_states_that_the_configuration_asks_for_are_refused():
    model = model_of("bert")
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            part.config.output_hidden_states = True
    with pytest.raises(InputError, match="are not collected"):
        lengthen(model, "interpolated")


def test_a_cache_does_not_pass_the_limit():
    model = model_of("llama")
    lengthen(model, "ntk")
    first = model(input_ids=ids_of(1, LIMIT - 1), use_cache=True)
    with pytest.raises(InputError, match="give whole texts, without a cache"):
        model(input_ids=ids_of(1, 2), past_key_values=first.past_key_values)
    with pytest.raises(InputError, match="makes no cache; give use_cache=False"):
        model(input_ids=ids_of(1, LIMIT + 1), use_cache=True)


@pytest.mark.parametrize("left", [0, 3])
def test_generation_without_a_cache_passes_the_limit(left):
    """With positions that go on, it is that of the model as it was."""
    model, ids = LlamaForCausalLM(model_of("llama").config).eval(), ids_of(1, LIMIT - 2)
    mask = (torch.arange(LIMIT - 2)[None] >= left).long()
    how = {"attention_mask": mask, "do_sample": False, "max_new_tokens": 5, "min_new_tokens": 5}
    expected = model.generate(ids, **how)
    lengthen(model, "unchanged", limit=LIMIT)
    assert torch.equal(model.generate(ids, use_cache=False, **how), expected)
    with pytest.raises(InputError, match="given with position_ids; leave it out"):
        model(ids_of(1, LIMIT + 1), position_ids=torch.arange(LIMIT + 1)[None] + 1)


@pytest.mark.parametrize(("family", "reading"), [("modernbert", "yarn"), ("t5", "unchanged")])
def test_auto_model_loads_what_an_encoder_saved(family, reading, tmp_path):
    model = model_of(family)
    lengthen(model, reading, limit=LIMIT)
    model.save_pretrained(tmp_path)
    again, ids = AutoModel.from_pretrained(tmp_path), ids_of(1, 40)
    assert type(again).__name__ == type(model).__name__
    torch.testing.assert_close(states(again, ids), states(model, ids))


def test_another_attention_would_read_without_the_reading():
    model = model_of("modernbert")
    lengthen(model, "self-extended", limit=16)
    model.set_attn_implementation("eager")
    with pytest.raises(InputError, match="eager attention reads long texts without self-extended; call"):
        model(torch.randint(5, 90, (1, 40)))
