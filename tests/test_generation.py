"""The decoder as transformers' generation calls it: outputs, caches, prompts as vectors, drafts,
position_ids.

The checks are those of transformers' GenerationTesterMixin, which no package carries;
`tests/transformers_suite.py` runs the mixin itself from a checkout.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, GenerationConfig, StaticCache
from transformers.utils import ModelOutput

from test_causal import MODES, model_of, texts
from vnait import InputError, Method, VnaitConfig, VnaitForCausalLM
from vnait.model import VnaitForMaskedLM, VnaitForSequenceClassification, VnaitForTokenClassification
from vnait.positions.coordinates import Running
from vnait.positions.encodings import ScaleInvariant

METHOD = ["rope", "alibi", *MODES]
NEW, LAYERS, HEADS, WIDTH, WORDS = 4, 2, 4, 32, 50
every_method = pytest.mark.parametrize("method", METHOD)


def prompt(rows: int = 2) -> dict[str, Tensor]:
    ids, mask = texts(rows=rows, length=9)
    return {"input_ids": ids, "attention_mask": mask}


def written(model: VnaitForCausalLM, inputs: dict[str, Any] | None = None, **settings: Any) -> ModelOutput:
    """NEW tokens, and everything that was seen on the way."""
    wanted = {
        "max_new_tokens": NEW,
        "min_new_tokens": NEW,
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    return model.generate(**(prompt() if inputs is None else inputs), **(wanted | settings))


def same(one: ModelOutput, other: ModelOutput) -> bool:
    """Equal words and scores of beams, or scores that agree within 1e-5 up to the first word that differs."""
    if "sequences_scores" in one:
        likely = torch.allclose(one.sequences_scores, other.sequences_scores, atol=1e-5)
        return likely and torch.equal(one.sequences[:, -NEW:], other.sequences[:, -NEW:])
    agree = one.sequences[:, -NEW:] == other.sequences[:, -NEW:]
    for step, (first, second) in enumerate(zip(one.scores, other.scores, strict=True)):
        alike = agree[:, :step].all(1)
        if alike.any() and not torch.allclose(first[alike], second[alike], atol=1e-5):
            return False
    return True


@every_method
@pytest.mark.parametrize(  # each pair of two settings
    ("cached", "beams", "sample"), [(True, 1, False), (True, 2, True), (False, 1, True), (False, 2, False)]
)
def test_all_outputs_have_their_shapes(method, cached, beams, sample):
    model = model_of(method)
    torch.manual_seed(0)
    output = written(
        model,
        use_cache=cached,
        num_beams=beams,
        do_sample=sample,
        output_logits=True,
        output_hidden_states=True,
        output_attentions=True,
    )
    rows = 2 * beams
    assert output.sequences.shape == (2, 9 + NEW)
    assert [tuple(step.shape) for step in output.scores] == [(rows, WORDS)] * NEW
    assert [step.shape[-1] for step in output.logits] == [WORDS] * NEW
    assert len(output.hidden_states) == len(output.attentions) == NEW
    for step in range(NEW):
        known = 9 + step
        new = 1 if cached and step else known
        assert [tuple(states.shape) for states in output.hidden_states[step]] == [(rows, new, WIDTH)] * (
            LAYERS + 1
        )
        assert [tuple(seen.shape) for seen in output.attentions[step]] == [(rows, HEADS, new, known)] * LAYERS
        for seen in output.attentions[step]:
            torch.testing.assert_close(seen.sum(-1), torch.ones(rows, HEADS, new))
    if not cached:
        assert output.past_key_values is None
        return
    cache = output.past_key_values
    assert len(cache) == LAYERS
    for layer in cache.layers:
        assert (
            tuple(layer.keys.shape) == tuple(layer.values.shape) == (rows, HEADS, 9 + NEW - 1, WIDTH // HEADS)
        )


@every_method
def test_attentions_with_a_cache_are_those_without(method):
    model, inputs = model_of(method), prompt()
    with torch.no_grad():
        whole = model(**inputs, output_attentions=True, output_hidden_states=True)
        first = {name: part[:, :5] for name, part in inputs.items()}
        cache = model(**first, use_cache=True).past_key_values
        last = model(
            inputs["input_ids"][:, 5:],
            attention_mask=inputs["attention_mask"],
            past_key_values=cache,
            output_attentions=True,
            output_hidden_states=True,
        )
    for found, expected in zip(last.attentions, whole.attentions, strict=True):
        torch.testing.assert_close(found, expected[:, :, 5:], atol=1e-5, rtol=0)
    for found, expected in zip(last.hidden_states, whole.hidden_states, strict=True):
        torch.testing.assert_close(found, expected[:, 5:], atol=1e-5, rtol=0)


@every_method
@pytest.mark.parametrize("beams", [1, 2])
def test_a_prompt_of_vectors_is_a_prompt_of_ids(method, beams):
    model, inputs = model_of(method), prompt()
    expected = written(model, inputs, num_beams=beams)
    vectors = model.get_input_embeddings()(inputs["input_ids"])
    mask = inputs["attention_mask"]
    assert same(written(model, {**inputs, "inputs_embeds": vectors}, num_beams=beams), expected)
    assert same(written(model, {"inputs_embeds": vectors, "attention_mask": mask}, num_beams=beams), expected)
    other = written(model, {**inputs, "inputs_embeds": torch.rand_like(vectors)}, num_beams=beams)
    assert not torch.allclose(other.scores[0], expected.scores[0], atol=1e-3)


@every_method
def test_a_text_goes_on_from_its_cache(method):
    model, inputs = model_of(method), prompt()
    expected = written(model, inputs)
    begun = written(model, inputs, max_new_tokens=NEW - 1, min_new_tokens=NEW - 1)
    mask = torch.nn.functional.pad(inputs["attention_mask"], (0, NEW - 1), value=1)
    both = {"input_ids": begun.sequences, "attention_mask": mask, "past_key_values": begun.past_key_values}
    ended = written(model, both, max_new_tokens=1, min_new_tokens=1)
    assert torch.equal(ended.sequences, expected.sequences)
    for found, layer in zip(ended.past_key_values.layers, expected.past_key_values.layers, strict=True):
        torch.testing.assert_close(found.keys, layer.keys, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.values, layer.values, atol=1e-5, rtol=0)


@every_method
@pytest.mark.parametrize("beams", [1, 2])
def test_a_cache_of_fixed_length_changes_nothing(method, beams):
    model, inputs = model_of(method), prompt()
    expected = written(model, inputs, num_beams=beams)
    fixed = written(model, inputs, num_beams=beams, cache_implementation="static")
    assert isinstance(fixed.past_key_values, StaticCache) and len(fixed.past_key_values) == LAYERS
    assert fixed.past_key_values.layers[0].keys.shape[2] >= 9 + NEW - 1
    assert same(fixed, expected)
    again = written(model, inputs, num_beams=beams, cache_implementation="static")  # the same cache, reset
    assert same(again, expected)


@every_method
@pytest.mark.parametrize("drafts", ["itself", "another", "the prompt"])
def test_drafted_words_are_the_same_words(method, drafts):
    """Rejected drafts are cropped from the cache."""
    model, inputs = model_of(method, eos_token_id=WORDS - 1), prompt(rows=1)
    expected = written(model, inputs)
    if drafts == "the prompt":
        found = written(model, inputs, prompt_lookup_num_tokens=2)
    else:
        other = copy.deepcopy(model)
        if drafts == "another":
            torch.manual_seed(1)
            for weight in other.parameters():
                weight.data.add_(torch.randn_like(weight), alpha=0.5)
        other.generation_config.num_assistant_tokens = 2
        other.generation_config.num_assistant_tokens_schedule = "constant"
        found = written(model, inputs, assistant_model=other)
    assert torch.equal(found.sequences, expected.sequences)


@every_method
def test_logits_of_chosen_tokens(method):
    model, inputs = model_of(method), prompt()
    with torch.no_grad():
        whole = model(**inputs).logits
        assert torch.equal(model(**inputs, logits_to_keep=2).logits, whole[:, -2:])
        chosen = model(**inputs, logits_to_keep=torch.tensor([8, 3])).logits
    torch.testing.assert_close(chosen, whole[:, [8, 3]])
    one, all_of_them = (model.generate(**inputs, max_new_tokens=NEW, logits_to_keep=kept) for kept in (1, 0))
    assert torch.equal(one, all_of_them)


def test_a_text_begins_and_ends_with_its_own_ids(tmp_path):
    model = model_of("vnait-causal", bos_token_id=2, eos_token_id=7)
    model.decoder.weight.data[7] *= 100  # either the most or the least likely word
    text = model.generate(**prompt(), max_new_tokens=30, do_sample=True)
    ends = (text[:, 9:] == 7).int()
    assert text.shape[1] < 39 and ends.any(1).all()
    for row in text[:, 9:]:
        end = int((row == 7).nonzero()[0])
        assert not row[end + 1 :].any()  # padding
    assert model.generate(max_new_tokens=1, do_sample=False)[0, 0] == 2
    model.save_pretrained(tmp_path)
    saved = GenerationConfig.from_pretrained(tmp_path)
    assert (saved.bos_token_id, saved.eos_token_id, saved.pad_token_id) == (2, 7, 0)
    again = VnaitForCausalLM.from_pretrained(tmp_path)
    assert (again.config.bos_token_id, again.config.eos_token_id) == (2, 7)
    assert again.generation_config.eos_token_id == 7


def test_a_configured_cache_is_returned():
    model, inputs = model_of("rope", use_cache=True), prompt()
    assert isinstance(model(**inputs).past_key_values, DynamicCache)
    assert model(**inputs, use_cache=False).past_key_values is None
    assert model_of("rope")(**inputs).past_key_values is None


def test_next_words_given_as_such_take_the_place_of_labels():
    model, inputs = model_of("vnait-causal"), prompt()
    ids = inputs["input_ids"]
    shifted = torch.nn.functional.pad(ids, (0, 1), value=-100)[:, 1:]
    expected = model(**inputs, labels=ids).loss
    torch.testing.assert_close(model(**inputs, shift_labels=shifted).loss, expected)
    torch.testing.assert_close(model(**inputs, labels=ids * 0, shift_labels=shifted).loss, expected)


# --- Gradient checkpointing


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_checkpointed_gradients_of_learned_places():
    """The factor of each pair is computed again with the layer."""
    torch.manual_seed(0)
    method = Method(coordinates=Running(source="content", dim=32), encoding=ScaleInvariant())
    found = []
    for checkpointed in (False, True):
        model = model_of("none", dropout=0.0).train()
        model.model.method = method
        if checkpointed:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        method.zero_grad()
        model(**prompt(), labels=prompt()["input_ids"]).loss.backward()
        found.append([weight.grad.clone() for weight in method.parameters()])
    assert any(gradient.abs().max() > 0 for gradient in found[0])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("method", ["rope", "t5", "kerple", "vnait-causal", "cope"])
@pytest.mark.parametrize("reentrant", [None, True, False])
@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_checkpointed_gradients_are_the_same(method, reentrant):
    model, inputs = model_of(method, dropout=0.0).train(), prompt()
    for view in getattr(model.model.method.inputs, "views", []):
        view.dropout = 0.0
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)

    def gradients() -> dict[str, Tensor]:
        torch.manual_seed(0)  # places are random while it is trained
        model.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        return {
            name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None
        }

    expected = gradients()
    settings = None if reentrant is None else {"use_reentrant": reentrant}
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)
    calls = []
    handle = model.model.encoder.blocks[0].attention.register_forward_hook(lambda *_: calls.append(1))
    found = gradients()
    handle.remove()
    assert len(calls) == 2  # computed again on the way back
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)
    assert model(**inputs, use_cache=True).past_key_values is None
    with pytest.raises(InputError, match=r"gradient checkpointing can't be used with a cache; train without"):
        model(**inputs, past_key_values=DynamicCache())


@every_method
def test_usual_position_ids_change_nothing(method):
    model, inputs = model_of(method), prompt()
    mask = inputs["attention_mask"]
    at = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
    with torch.no_grad():
        whole = model(**inputs).logits
        assert torch.equal(model(**inputs, position_ids=at).logits, whole)
        cache = model(inputs["input_ids"][:, :6], attention_mask=mask[:, :6], use_cache=True).past_key_values
        last = model(inputs["input_ids"][:, 6:], mask, past_key_values=cache, position_ids=at[:, 6:]).logits
    torch.testing.assert_close(last, whole[:, 6:], atol=1e-5, rtol=0)


def test_a_padding_id_that_is_counted_is_a_word():
    """generate() drops a mask of ones, and may write the padding id."""
    model, ids = model_of("vnait-causal"), torch.tensor([[5, 0, 7, 0, 9]])
    with torch.no_grad():
        whole = model(ids, attention_mask=torch.ones_like(ids)).logits
        assert torch.equal(model(ids, position_ids=torch.arange(5)[None]).logits, whole)
        cache = model(ids[:, :3], position_ids=torch.arange(3)[None], use_cache=True).past_key_values
        last = model(ids[:, 3:], past_key_values=cache, position_ids=torch.arange(3, 5)[None]).logits
        padded = model(ids).logits
    torch.testing.assert_close(last, whole[:, 3:], atol=1e-5, rtol=0)
    assert not torch.allclose(padded, whole, atol=1e-2)


def test_one_row_of_position_ids_is_for_all_rows():
    model = model_of("rope")
    ids = torch.randint(3, WORDS, (2, 6))
    with torch.no_grad():
        assert torch.equal(model(ids, position_ids=torch.arange(6)[None]).logits, model(ids).logits)


@pytest.mark.parametrize("at", [[5, 6, 7], [0, 2, 4], [0, 0, 2], [2, 1, 0]])
def test_other_position_ids_are_refused(at):
    model = model_of("rope")
    with pytest.raises(
        InputError, match=r"position_ids of row 1 have . at token .; they count 0, 1, 2, \.\.\."
    ):
        model(torch.full((2, 3), 4), position_ids=torch.tensor([[0, 1, 2], at]))


@pytest.mark.parametrize(
    "head", [VnaitForCausalLM, VnaitForMaskedLM, VnaitForTokenClassification, VnaitForSequenceClassification]
)
def test_packed_texts_are_refused(head):
    model = head(VnaitConfig(method="rope", vocab_size=WORDS, hidden_size=32)).eval()
    ids = torch.tensor([[4, 5, 6, 7]])
    model(ids, position_ids=torch.arange(4)[None])
    with pytest.raises(
        InputError,
        match=r"row 0 have 0 at token 2; they count .*: give one text per row, and pad the shorter",
    ):
        model(ids, position_ids=torch.tensor([[0, 1, 0, 1]]))


@pytest.mark.parametrize(
    ("more", "said"), [([0, 1], "have 0 at token 0.*one text per row"), ([3, 4], "have 3 at token 0")]
)
def test_position_ids_go_on_after_a_cache(more, said):
    model, ids = model_of("rope"), torch.tensor([[4, 5, 6, 7]])
    cache = model(ids[:, :2], use_cache=True).past_key_values
    with pytest.raises(InputError, match=said):
        model(ids[:, 2:], past_key_values=cache, position_ids=torch.tensor([more]))
