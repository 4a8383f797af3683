"""Attached models in other hands: `forward` called directly, copies, replicas, peft, saved folders."""

from __future__ import annotations

import copy
import functools
import inspect
import io
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import nn

import vnait
from conftest import unchecked
from families import DECODERS, FAMILIES, SMALL, TWO_SIDED, attached_to, ids_of, logits, method_of, model_of
from helpers import python
from vnait import InputError, Method
from vnait.positions.coordinates import Index
from vnait.positions.encodings import Sinusoid
from vnait.pretrained import load_adapter, save_base
from vnait.pretrained.attach.attached import attached_owners

every_family = pytest.mark.parametrize("family", FAMILIES)
TINY = Path(__file__).parent / "golden" / "format_9" / "tiny_bert"
PAST = r"was called without the attached model's forward, .* call the model itself"


def owner_of(model: nn.Module) -> Any:
    return next(iter(attached_owners(model).values()))


def auto_of(family: str) -> Any:
    if family in TWO_SIDED:
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModelForCausalLM if family in DECODERS else transformers.AutoModelForMaskedLM


@every_family
def test_forward_called_directly_is_the_model(family):
    """As sentence-transformers and peft do; hooks don't run then."""
    model, ids = attached_to(family), ids_of()
    inputs = {"attention_mask": torch.ones_like(ids)}
    owner = owner_of(model)
    with torch.no_grad():
        states, direct = owner(input_ids=ids, **inputs)[0], owner.forward(input_ids=ids, **inputs)[0]
        other = owner.forward(input_ids=ids.flip(1), **inputs)[0].flip(1)
    assert torch.equal(direct, states)
    assert not torch.allclose(other, states, atol=0.1)
    plain = model_of(family)
    for path in attached_owners(model):
        parts = model.get_submodule(path), plain.get_submodule(path)
        assert inspect.signature(parts[0].forward) == inspect.signature(parts[1].forward)


@every_family
def test_pickled_and_copied_models_have_their_method(family):
    model, ids = attached_to(family), ids_of()
    expected = logits(model, ids)
    saved = io.BytesIO()
    torch.save(model, saved)
    saved.seek(0)
    copies = [pickle.loads(pickle.dumps(model)), torch.load(saved, weights_only=False), copy.deepcopy(model)]
    for twin in copies:
        assert torch.equal(logits(twin, ids), expected)
        vnait.detach(twin)
        assert type(twin) is type(model_of(family))
        assert torch.equal(logits(twin, ids), logits(model_of(family), ids))
    assert torch.equal(logits(model, ids), expected)


def replica_of(module: nn.Module) -> Any:
    """As torch.nn.parallel.replicate makes it: weights are attributes, not parameters."""
    replica: Any = module._replicate_for_data_parallel()  # type: ignore[operator]
    for name, child in module._modules.items():
        replica._modules[name] = None if child is None else replica_of(child)
    for name, weight in module._parameters.items():
        setattr(replica, name, None if weight is None else weight.detach().clone())
    return replica


@every_family
def test_a_data_parallel_replica_has_its_own_weights(family):
    model, ids = attached_to(family), ids_of()
    expected, replica = logits(model, ids), replica_of(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert torch.allclose(logits(replica, ids), expected, rtol=1e-5, atol=2e-5)


@every_family
def test_a_forward_without_the_method_is_an_error(family):
    model, ids = attached_to(family), ids_of()
    for owner in attached_owners(model).values():
        with pytest.raises(InputError, match=PAST):
            type(owner).plain.forward(owner, input_ids=ids, attention_mask=torch.ones_like(ids))
    logits(model, ids)


def test_a_silenced_table_outside_its_model_is_an_error():
    model, ids = attached_to("bert"), ids_of()
    with pytest.raises(InputError, match=rf"the silenced position table {PAST}"):
        model.bert.embeddings(ids)
    broken: list[str] = []

    def elsewhere(*args: Any) -> None:
        """Another thread, while this one is in the model's forward."""

        def read() -> None:
            try:
                model.bert.embeddings(ids)
            except InputError as error:
                broken.append(str(error))

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        raise KeyError("stop")

    handle = model.bert.encoder.register_forward_hook(elsewhere)
    with pytest.raises(KeyError):
        model(ids)
    handle.remove()
    assert len(broken) == 1
    with pytest.raises(InputError, match=PAST):  # after an error inside the model
        model.bert.embeddings(ids)


def test_a_forward_replaced_before_attach_is_refused():
    model, ids = model_of("bert"), ids_of()
    before = logits(model, ids)
    own = type(model.bert).forward
    model.bert.forward = functools.wraps(own)(functools.partial(own, model.bert))
    with pytest.raises(InputError, match="attach before its forward is replaced"):
        vnait.attach(model)
    assert torch.equal(logits(model, ids), before)


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
@pytest.mark.parametrize("first", ["attach", "accelerate"])
def test_accelerate_may_wrap_every_forward(family, first):
    """As from_pretrained(device_map="auto") does on several devices."""
    model, ids = model_of(family), ids_of()
    before, kind = logits(model, ids), type(model)

    def wrap() -> None:
        for part in list(model.modules()):
            add_hook_to_module(part, AlignDevicesHook(execution_device="cpu"))

    if first == "accelerate":
        wrap()
    vnait.attach(model, method_of(family), warm_start=None)
    if first == "attach":
        wrap()
    plain = model_of(family)
    vnait.attach(plain, method_of(family), warm_start=None)
    for owner, other in zip(attached_owners(model).values(), attached_owners(plain).values(), strict=True):
        other.vnait.load_state_dict(owner.vnait.state_dict())
    assert torch.equal(logits(model, ids), logits(plain, ids))
    vnait.detach(model)
    assert type(model) is kind
    assert torch.equal(logits(model, ids), before)


@pytest.mark.slow
def test_an_exported_model_has_its_method():
    model, ids = attached_to("bert"), ids_of()
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with unchecked(), torch.no_grad():
        exported = torch.export.export(model, (), inputs, strict=False).module()
        found = exported(**{**inputs, "input_ids": ids.flip(1)})["logits"]
    assert torch.allclose(found, logits(model, ids.flip(1)), atol=1e-5)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_peft_calls_forward_directly():
    from peft import LoraConfig, get_peft_model

    model = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    vnait.attach(model, warm_start=None)
    ids = ids_of()
    expected = model(ids)[0]
    tuned = get_peft_model(model, LoraConfig(target_modules=["query"], modules_to_save=["vnait"], r=2)).eval()
    assert torch.allclose(tuned(ids)[0], expected, atol=1e-6)
    assert not torch.allclose(tuned(ids.flip(1))[0].flip(1), expected, atol=1e-3)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_lora_and_weights_elsewhere_reach_the_gaps():
    """The layers of learned gaps are called as a client has changed them."""
    from accelerate import cpu_offload
    from peft import LoraConfig, get_peft_model

    model, ids = transformers.BertModel(transformers.BertConfig(**SMALL)).eval(), ids_of()
    vnait.attach(model)
    with torch.no_grad():
        expected = model(ids)[0]
        cpu_offload(model, execution_device=torch.device("cpu"))
        assert torch.equal(model(ids)[0], expected)
        decoder = model_of("gpt2")
        vnait.attach(decoder, "vnait-causal")
        expected = logits(decoder, ids)
        whole = {"preload_module_classes": ["Attached"]}  # a running sum reads weights of other parts
        cpu_offload(decoder, execution_device=torch.device("cpu"), **whole)
        assert torch.equal(logits(decoder, ids), expected)
    model = transformers.BertModel(transformers.BertConfig(**SMALL))
    vnait.attach(model)
    tuned = get_peft_model(model, LoraConfig(target_modules="all-linear", r=2))
    tuned(ids)[0].square().sum().backward()
    (weight,) = (one for name, one in tuned.named_parameters() if "weigh.lora_B" in name)
    assert weight.grad.abs().sum() > 0


def test_sentence_transformers_trains_and_saves_an_attached_embedder(tmp_path):
    """It calls `forward` directly. The same on a trained embedder: benchmarks/embedders.py."""
    library = pytest.importorskip("sentence_transformers")
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    transformers.BertModel.from_pretrained(TINY).save_pretrained(tmp_path / "base")
    transformers.AutoTokenizer.from_pretrained(TINY).save_pretrained(tmp_path / "base")
    model = library.SentenceTransformer(str(tmp_path / "base"), device="cpu")
    texts = ["a dull film", "film dull a"]
    before = model.encode(texts)
    vnait.attach(model[0].auto_model)
    attached = model.encode(texts)
    assert np.allclose(attached, before, atol=1e-5) and not np.allclose(*attached, atol=1e-3)
    settings = library.SentenceTransformerTrainingArguments(
        str(tmp_path), max_steps=2, learning_rate=0.01, report_to=[], use_cpu=True, disable_tqdm=True
    )
    pairs = Dataset.from_dict({"one": texts, "two": texts[::-1], "score": [0.0, 0.0]})
    library.SentenceTransformerTrainer(model, settings, pairs, loss=CosineSimilarityLoss(model)).train()
    trained = model.encode(texts)
    assert not np.allclose(trained, attached, atol=1e-3) and not np.allclose(*trained, atol=1e-3)
    model.save_pretrained(str(tmp_path / "saved"))
    again = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.array_equal(again.encode(texts), trained)


# --- Saved folders


@every_family
@pytest.mark.parametrize("warm_start", ["exact", None])
def test_a_saved_folder_loads_with_its_method(family, warm_start, tmp_path, caplog):
    """The base trained too, and saved a second time from what was loaded."""
    model, ids = attached_to(family, warm_start=warm_start), ids_of()
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(3)  # changes the scale that `attach` would choose
    model.save_pretrained(tmp_path / "one")
    state = torch.random.get_rng_state(), random.getstate()
    again = auto_of(family).from_pretrained(tmp_path / "one")
    assert torch.equal(torch.random.get_rng_state(), state[0]) and random.getstate() == state[1]
    assert type(again).__name__ == type(model).__name__
    assert again.config.model_type == model.config.model_type
    assert torch.equal(logits(again, ids), logits(model, ids))
    assert "UNEXPECTED" not in caplog.text
    again.save_pretrained(tmp_path / "two")
    third, info = auto_of(family).from_pretrained(tmp_path / "two", output_loading_info=True)
    assert torch.equal(logits(third, ids), logits(model, ids))
    assert not info["missing_keys"] and not info["unexpected_keys"]
    vnait.detach(third)
    third.save_pretrained(tmp_path / "plain")
    assert "vnait" not in (tmp_path / "plain" / "config.json").read_text()


def test_a_saved_folder_loads_into_other_classes_and_precisions(tmp_path):
    model, ids = attached_to("bert"), ids_of()
    model.save_pretrained(tmp_path)
    base = transformers.AutoModel.from_pretrained(tmp_path)
    assert torch.equal(base(ids)[0], model.bert(ids)[0])
    classifier = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=3)
    assert classifier(ids).logits.shape == (2, 3)
    assert torch.equal(classifier.bert(ids)[0], model.bert(ids)[0])
    half = auto_of("bert").from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16 and half.bert.vnait.gate.dtype == torch.float32
    assert (logits(half, ids) - logits(model, ids)).abs().max() < 0.2 * logits(model, ids).abs().max()
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, transformers.BertConfig)
    assert torch.equal(
        logits(auto_of("bert").from_pretrained(tmp_path, config=config), ids), logits(model, ids)
    )


def test_both_sides_with_crossing_load_again(tmp_path):
    model, ids = attached_to("bart", cross="source"), ids_of()
    model.save_pretrained(tmp_path)
    assert torch.equal(logits(auto_of("bart").from_pretrained(tmp_path), ids), logits(model, ids))


def test_a_part_of_the_model_may_be_saved(tmp_path):
    """sentence-transformers saves the owner; the sides and what is around them are models too."""
    model, ids = attached_to("bert"), ids_of()
    nn.ModuleList([model]).get_submodule("0.bert").save_pretrained(tmp_path / "owner")
    assert torch.equal(transformers.AutoModel.from_pretrained(tmp_path / "owner")(ids)[0], model.bert(ids)[0])
    bart = attached_to("bart")
    bart.model.save_pretrained(tmp_path / "middle")
    again = transformers.AutoModel.from_pretrained(tmp_path / "middle")
    assert torch.equal(again(ids, decoder_input_ids=ids)[0], bart.model(ids, decoder_input_ids=ids)[0])


def test_a_large_model_may_be_saved_in_parts(tmp_path):
    model, ids = attached_to("bert"), ids_of()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    again = auto_of("bert").from_pretrained(tmp_path)
    assert torch.equal(logits(again, ids), logits(model, ids))


def test_an_encoder_alone_has_its_method_and_loads_again(tmp_path):
    """Part of an encoder-decoder; no Auto class has T5EncoderModel."""
    model, ids = transformers.T5EncoderModel(transformers.T5Config(**FAMILIES["t5"][2])).eval(), ids_of()
    before = model(ids)[0]
    assert vnait.attach(model).owner == ("encoder",)
    assert torch.allclose(model(ids)[0], before, atol=1e-5)
    with torch.no_grad():
        owner_of(model).vnait.gate.add_(0.1)
    model.save_pretrained(tmp_path)
    again = transformers.AutoModel.from_pretrained(tmp_path)
    assert type(again).__name__ == "T5EncoderModel" and torch.equal(again(ids)[0], model(ids)[0])
    assert not torch.allclose(model(ids)[0], before, atol=1e-2)


def test_a_pipeline_reads_a_saved_folder(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(50)}, unk_token="w3"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"pad_token": "w0", "unk_token": "w3", "mask_token": "w4"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **names)
    model = attached_to("bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    found = transformers.pipeline("fill-mask", model=str(tmp_path))("w7 w4 w9", top_k=1)
    assert found[0]["token"] == int(logits(model, torch.tensor([[7, 4, 9]]))[0, 1].argmax())
    loaders = transformers.AutoModelForMaskedLM._model_mapping._extra_content.values()
    assert "BertForMaskedLM" in [loader.__name__ for loader in loaders]  # every pipeline lists all names


@pytest.mark.long
def test_without_vnait_a_saved_folder_is_refused(tmp_path):
    attached_to("bert").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="quantization"):  # a class that is not an Auto class
        transformers.BertForMaskedLM.from_pretrained(tmp_path)
    script = f"""
import transformers
load = lambda: transformers.AutoModel.from_pretrained({str(tmp_path)!r})
try:
    load()
except ValueError as error:
    print(error)
import vnait
print(type(load()).__name__)
"""
    refused, loaded = python(script).rsplit("\n", 2)[:2]
    assert "has model type `vnait-attached` but Transformers does not recognize" in refused
    assert loaded == "BertModel"


def test_a_method_without_a_name_is_refused_before_anything_is_written(tmp_path):
    model = model_of("bert")
    vnait.attach(model, Method(coordinates=Index(), encoding=Sinusoid(dim=16)))
    with pytest.raises(
        InputError, match=r"a Method of your own \(Index x Sinusoid\) is in BertForMaskedLM.*save_adapter"
    ):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    save_base(model, tmp_path / "base")
    assert type(model).from_pretrained(tmp_path / "base").config.model_type == "bert"


def test_a_saved_model_is_not_an_adapter(tmp_path):
    attached_to("bert").save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"is a whole model; load it with AutoModel.from_pretrained"):
        load_adapter(model_of("bert"), tmp_path)


def test_a_saved_model_without_its_method_is_damaged(tmp_path):
    attached_to("bert").save_pretrained(tmp_path)
    Path(tmp_path / "vnait.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"is damaged: its checksum"):
        transformers.AutoModel.from_pretrained(tmp_path)
    Path(tmp_path / "vnait.safetensors").unlink()
    with pytest.raises(OSError, match=r"vnait.safetensors"):
        transformers.AutoModel.from_pretrained(tmp_path)


def test_only_the_main_process_writes(tmp_path):
    attached_to("bert").save_pretrained(tmp_path, is_main_process=False)
    assert not list(tmp_path.iterdir())


def test_a_model_of_the_same_class_is_plain():
    """Some clients build type(model)(config) or call type(model).from_pretrained."""
    model = attached_to("bert")
    owner = owner_of(model)
    twin = type(owner)(copy.deepcopy(owner.config)).eval()
    plain = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    twin.load_state_dict(plain.state_dict())
    assert torch.equal(twin(ids_of())[0], plain(ids_of())[0])


@torch.no_grad()
def test_a_model_made_around_an_attached_one_leaves_its_weights_alone(tmp_path):
    attached_to("bert").save_pretrained(tmp_path)
    inner = transformers.AutoModel.from_pretrained(tmp_path).eval()
    ids = ids_of()
    before = inner(ids)[0]

    class Head(transformers.BertPreTrainedModel):
        def __init__(self, config: Any, bert: Any) -> None:
            super().__init__(config)
            self.bert, self.head = bert, nn.Linear(bert.config.hidden_size, 3)
            self.post_init()

    outer = Head(copy.deepcopy(inner.config), inner).eval()
    assert torch.equal(outer.bert(ids)[0], before)
    outer.init_weights()
    assert torch.equal(outer.bert(ids)[0], before)


@torch.no_grad()
def test_weights_that_a_client_passes_are_saved_with_the_method(tmp_path):
    model = attached_to("bert")
    model.save_pretrained(tmp_path, state_dict=model.state_dict())
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert torch.equal(again(ids_of()).logits, model(ids_of()).logits)


def test_what_would_lose_the_method_or_add_a_position_is_refused(tmp_path):
    model = attached_to("bert")
    with pytest.raises(
        InputError, match=r"push_to_hub=True uploads a part of the folder; call model\.push_to_hub"
    ):
        model.save_pretrained(tmp_path / "new", push_to_hub=True)
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="a method is attached, and reads texts longer than the table"):
        model.resize_position_embeddings(99)
    decoder = model_of("llama")
    vnait.attach(decoder, "vnait-causal", warm_start=None)
    decoder.config._attn_implementation = "flash_attention_2"
    with pytest.raises(
        InputError, match="flash_attention_2 takes real-valued places for those of packed texts"
    ):
        decoder(ids_of())


def test_a_text_model_that_decodes_by_an_argument_is_causal():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    text = transformers.BlipTextConfig(
        vocab_size=40, encoder_hidden_size=16, max_position_embeddings=32, **sizes
    )
    vision = transformers.BlipVisionConfig(image_size=8, patch_size=4, **sizes)
    config = transformers.BlipConfig(text_config=text.to_dict(), vision_config=vision.to_dict())
    model = transformers.BlipForConditionalGeneration(config).eval()
    with pytest.raises(InputError, match="vnait lets tokens depend on later ones"):
        vnait.attach(model, "vnait")


class OfMask(nn.Module):
    """A model of ids and mask, by position."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, attention_mask=mask).logits


@torch.no_grad()
@pytest.mark.filterwarnings("ignore")  # PyTorch's, of its tracer
def test_a_traced_model_reads_padding():
    model = model_of("bert")
    vnait.attach(model, "sinusoidal")
    next(iter(attached_owners(model).values())).vnait.gate.fill_(1)
    model.requires_grad_(False)
    ids = ids_of()
    mask = torch.ones_like(ids)
    with unchecked():  # sizes are tensors there
        traced = torch.jit.trace(OfMask(model), (ids, mask), check_trace=False)
    mask[0, -2:] = 0
    assert torch.allclose(traced(ids, mask)[:, :-2], OfMask(model)(ids, mask)[:, :-2], atol=1e-5)
