"""Attached methods in models that consist of others, or that read more than ids and a mask."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import nn

import vnait
from families import SMALL, ids_of
from vnait import InputError
from vnait.pretrained import lengthen, save_adapter

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def of_images_and_text() -> nn.Module:
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**SIZE, image_size=16, patch_size=8),
        text_config=transformers.LlamaConfig(vocab_size=60, max_position_embeddings=64, **SIZE),
        image_token_index=59,
        image_seq_length=4,
        vision_feature_layer=-1,
    )
    torch.manual_seed(0)
    return transformers.LlavaForConditionalGeneration(config).eval()


def bert_to_bert() -> nn.Module:
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.BertConfig(**SMALL),
        transformers.BertConfig(**SMALL, is_decoder=True, add_cross_attention=True),
    )
    torch.manual_seed(0)
    return transformers.EncoderDecoderModel(config=config).eval()


@torch.no_grad()
def answers(model: nn.Module) -> torch.Tensor:
    ids = ids_of()
    more = {"decoder_input_ids": ids.flip(1)} if model.config.is_encoder_decoder else {}
    return model(input_ids=ids, **more).logits


def trained(model: nn.Module) -> nn.Module:
    """With weights off their start."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    return model


@pytest.mark.parametrize(
    ("make", "method", "auto"),
    [
        (of_images_and_text, "vnait-causal", transformers.AutoModelForImageTextToText),
        (bert_to_bert, "vnait", transformers.AutoModelForSeq2SeqLM),
    ],
)
def test_a_composite_model_is_loaded_with_its_method(make, method, auto, tmp_path):
    model = make()
    before = answers(model)
    vnait.attach(model, method)
    assert torch.allclose(answers(model), before, atol=1e-5)
    trained(model).save_pretrained(tmp_path)
    again = auto.from_pretrained(tmp_path).eval()
    assert torch.equal(answers(again), answers(model))
    again.save_pretrained(tmp_path / "again")
    assert torch.equal(answers(auto.from_pretrained(tmp_path / "again").eval()), answers(model))


@pytest.mark.parametrize("method", ["rope", "alibi", "kerple", "vnait-causal"])
def test_cross_attention_stays_without_position(method):
    """The order of another text changes nothing; its length may differ. With a cache, too."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        **SMALL, is_decoder=True, add_cross_attention=True, initializer_range=0.2
    )
    model = transformers.BertLMHeadModel(config).eval()
    vnait.attach(trained(model), method, warm_start=None)
    ids, source = ids_of(1, 9), torch.randn(1, 12, SMALL["hidden_size"])

    def read(states: torch.Tensor, cache: bool = False) -> torch.Tensor:
        inputs = {"encoder_hidden_states": states, "use_cache": cache}
        if not cache:
            return model(input_ids=ids, **inputs).logits
        first = model(input_ids=ids[:, :6], **inputs)
        return model(input_ids=ids[:, 6:], past_key_values=first.past_key_values, **inputs).logits

    with torch.no_grad():
        expected = read(source)
        torch.testing.assert_close(read(source.flip(1)), expected, rtol=0, atol=1e-4)
        torch.testing.assert_close(read(source, cache=True), expected[:, 6:], rtol=0, atol=1e-4)
        assert not torch.allclose(read(source[:, :5]), expected, atol=1e-3)
    vnait.detach(model)
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_one_side_is_not_saved_alone(tmp_path):
    model = bert_to_bert()
    vnait.attach(model)
    with pytest.raises(InputError, match=r"BertModel is one side of a model .* save the whole"):
        model.encoder.save_pretrained(tmp_path / "part")
    assert not (tmp_path / "part" / "vnait.json").exists()


def test_a_composite_model_is_loaded_lengthened(tmp_path):
    model = of_images_and_text()
    lengthen(model, "interpolated")
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path).eval()
    assert torch.equal(answers(again), answers(model))
    assert type(again.model.language_model) is not type(of_images_and_text().model.language_model)


@pytest.mark.parametrize("family", ["XLM", "Flaubert"])
@torch.no_grad()
def test_padding_that_a_model_finds_in_its_ids_stays_padding(family):
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=60, emb_dim=32, n_layers=2, n_heads=4, init_std=0.2, embed_init_std=0.2
    )
    model = getattr(transformers, f"{family}Model")(config).eval()
    ids = torch.randint(10, 60, (1, 12))
    lengths = torch.tensor([5])
    shorter = model(ids, lengths=lengths)[0]
    ids[0, 8:] = config.pad_index
    before = model(ids)[0]
    vnait.attach(model)
    assert torch.allclose(model(ids)[0][:, :8], before[:, :8], atol=1e-5)
    assert torch.allclose(model(ids, lengths=lengths)[0][:, :5], shorter[:, :5], atol=1e-5)


@torch.no_grad()
def test_sparse_attention_stays_sparse():
    config = transformers.BigBirdConfig(
        **{**SMALL, "max_position_embeddings": 256, "vocab_size": 70}, block_size=8, num_random_blocks=1
    )
    torch.manual_seed(0)
    model = transformers.BigBirdModel(config).eval()
    ids = torch.randint(5, 60, (1, 200))
    before = model(ids)[0]
    vnait.attach(model)
    assert model.attention_type == "block_sparse"
    assert torch.allclose(model(ids)[0], before, atol=1e-5)
    vnait.detach(model)
    vnait.audit(model)
    assert torch.equal(model(ids)[0], before)


def test_a_bias_of_distances_needs_a_cache_that_grows():
    config = transformers.BloomConfig(
        vocab_size=60, hidden_size=32, n_layer=2, n_head=4, pad_token_id=0, eos_token_id=1
    )
    model = transformers.BloomForCausalLM(config).eval()
    vnait.attach(model, "vnait-causal")
    with pytest.raises(InputError, match="takes a DynamicCache"):
        model.generate(ids_of(), max_new_tokens=2, cache_implementation="static")


def test_vectors_that_depend_on_ids_are_refused():
    config = transformers.EsmConfig(
        **SMALL, mask_token_id=32, token_dropout=True, position_embedding_type="absolute"
    )
    with pytest.raises(InputError, match=r"EsmModel scales its vectors by the ids \(token_dropout\)"):
        vnait.attach(transformers.EsmModel(config).eval())


def test_a_frozen_base_stays_frozen():
    model = transformers.BertModel(transformers.BertConfig(**SMALL))
    vnait.attach(model)
    for name, weight in model.named_parameters():
        weight.requires_grad_("vnait" in name.split("."))
    vnait.detach(model)
    assert not any(weight.requires_grad for weight in model.parameters())
    vnait.attach(model.requires_grad_())
    vnait.detach(model)
    assert all(weight.requires_grad for weight in model.parameters())


def test_a_table_that_was_learned_alone_is_learned_again():
    model = transformers.BertModel(transformers.BertConfig(**SMALL)).requires_grad_(False)
    table = model.embeddings.position_embeddings.weight.requires_grad_()
    vnait.attach(model, "vnait")
    vnait.detach(model)
    assert [weight for weight in model.parameters() if weight.requires_grad] == [table]


def test_a_configuration_has_no_weights_of_a_method(tmp_path):
    model = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    vnait.attach(model)
    model.save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="call from_pretrained with the model's folder"):
        transformers.AutoModel.from_config(config)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_what_peft_wraps_is_audited_and_named(tmp_path):
    from peft import LoraConfig, get_peft_model

    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL)).eval()
    vnait.attach(model)
    options = LoraConfig(target_modules=["query", "value"], modules_to_save=["vnait"])
    tuned = get_peft_model(model, options).eval()
    found = vnait.audit(tuned)
    assert found.leftover < 1e-5
    assert any("attached method" in source.kind for source in found.sources)
    for refused in (vnait.detach, lambda model: save_adapter(model, tmp_path / "adapter")):
        with pytest.raises(InputError, match=r"inside peft's modules_to_save; call merge_and_unload\(\)"):
            refused(tuned)
    vnait.detach(tuned.merge_and_unload())


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_adapters_of_transformers_would_lose_the_method(tmp_path):
    from peft import LoraConfig

    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL)).eval()
    vnait.attach(model)
    model.add_adapter(LoraConfig(target_modules=["query", "value"]))
    with pytest.raises(InputError, match=r"train with peft\.get_peft_model"):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_generation_past_the_limit_names_the_cache():
    config = transformers.LlamaConfig(vocab_size=60, max_position_embeddings=16, **SIZE)
    model = transformers.LlamaForCausalLM(config).eval()
    lengthen(model, "yarn")
    with pytest.raises(InputError, match="past_key_values; give whole texts, without a cache"):
        model.generate(torch.randint(5, 60, (1, 12)), max_new_tokens=8)
