"""The models as transformers sees them: configuration, heads, saving, training, and what is said about a
damaged folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)

from helpers import perturb
from vnait.model import (
    VnaitConfig,
    VnaitForMaskedLM,
    VnaitForSequenceClassification,
    VnaitForTokenClassification,
    VnaitModel,
    seed_weights,
)
from vnait.model.one_hot import OneHotWords, terms_of
from vnait.positions.building import build, parameters
from vnait.positions.coordinates import Index
from vnait.positions.encodings import Sinusoid
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Recipe
from vnait.shared.errors import InputError
from vnait.train.saved import load_classifier

HEADS = [VnaitForSequenceClassification, VnaitForTokenClassification, VnaitForMaskedLM]
AUTO = [AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoModelForMaskedLM]


def config(**settings: object) -> VnaitConfig:
    return VnaitConfig(**{"vocab_size": 20, "hidden_size": 16, "mean_length": 4.0, "dropout": 0.0} | settings)


def ids() -> Tensor:
    return torch.tensor([[5, 9, 3, 17], [6, 1, 0, 0], [0, 0, 7, 8]])


def saved(folder: Path, **settings: object) -> VnaitForSequenceClassification:
    model = VnaitForSequenceClassification(config(**settings)).eval()
    model.save_pretrained(folder)
    return model


# --- Configuration


def test_widths_that_follow_from_others() -> None:
    default = VnaitConfig(hidden_size=40)
    assert (default.vector_size, default.intermediate_size) == (40, 80)
    given = VnaitConfig(hidden_size=40, vector_size=300, intermediate_size=160)
    assert (given.vector_size, given.intermediate_size) == (300, 160)


def test_configuration_survives_saving(tmp_path: Path) -> None:
    config(method="learned", vector_size=7, num_labels=5, smoothness=0.3, max_length=99).save_pretrained(
        tmp_path
    )
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(loaded, VnaitConfig)
    assert (loaded.method, loaded.vector_size, loaded.num_labels) == ("learned", 7, 5)
    assert (loaded.smoothness, loaded.max_length, loaded.vnait_format) == (0.3, 99, 9)


def test_another_format_is_refused() -> None:
    with pytest.raises(InputError, match="this model is of format 4, and this vnait reads format 9"):
        VnaitConfig(vnait_format=4)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match="method 'vanit' is not known"):
        VnaitModel(config(method="vanit"))


# --- Saving and loading


@pytest.mark.parametrize(
    ("head", "auto"), list(zip(HEADS, AUTO, strict=True)), ids=lambda part: part.__name__
)
@pytest.mark.parametrize("vector_size", [0, 6])
def test_heads_survive_saving(
    head: type[PreTrainedModel], auto: type, vector_size: int, tmp_path: Path
) -> None:
    model = head(config(vector_size=vector_size, num_labels=3)).eval()
    perturb(model)
    model.save_pretrained(tmp_path)
    loaded = auto.from_pretrained(tmp_path)
    assert type(loaded) is head
    for key, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], tensor), key
    assert torch.equal(loaded(ids()).logits, model(ids()).logits)
    encoder = AutoModel.from_pretrained(tmp_path)
    assert torch.equal(encoder(ids()).last_hidden_state, model.model(ids()).last_hidden_state)


@pytest.mark.parametrize("tune_vectors", [True, False])
def test_what_was_frozen_is_frozen_after_loading(tune_vectors: bool, tmp_path: Path) -> None:
    model = VnaitForSequenceClassification(config(num_labels=3, tune_vectors=tune_vectors))
    model.save_pretrained(tmp_path)
    loaded, _ = VnaitForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    for again in (loaded, AutoModelForSequenceClassification.from_pretrained(tmp_path)):
        assert again.get_input_embeddings().weight.requires_grad == tune_vectors
        assert parameters(again) == parameters(model)


def test_a_classifier_on_a_language_model(tmp_path: Path) -> None:
    """Pretrained words and blocks carry over; the new head starts anew."""
    pretrained = VnaitForMaskedLM(config())
    perturb(pretrained)
    pretrained.save_pretrained(tmp_path)
    tuned = VnaitForSequenceClassification.from_pretrained(tmp_path, num_labels=4)
    for key, tensor in pretrained.model.state_dict().items():
        assert torch.equal(tuned.model.state_dict()[key], tensor), key
    assert tuned.classifier.weight.shape == (4, 16)
    assert 0 < tuned.classifier.weight.abs().max() <= 0.25  # a Linear's own start, 1/sqrt(16)


def test_the_output_table_is_the_table_of_words(tmp_path: Path) -> None:
    model = VnaitForMaskedLM(config(vector_size=6))
    assert model.decoder.weight is model.model.vectors.weight
    model.save_pretrained(tmp_path)
    loaded = VnaitForMaskedLM.from_pretrained(tmp_path)
    assert loaded.decoder.weight is loaded.model.vectors.weight
    assert torch.equal(loaded.decoder.weight, model.decoder.weight)
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(tensor.shape == (20, 6) for tensor in stored.values()) == 1
    loaded(ids(), labels=ids()).loss.backward()
    assert loaded.get_output_embeddings().weight.grad is loaded.get_input_embeddings().weight.grad


def test_words_start_at_the_scale_of_loaded_vectors() -> None:
    """Root mean square 1 and zero at padding; also when tied to an output table, and when started from a
    seed.
    """
    for head in (VnaitModel, VnaitForMaskedLM):
        model = head(config(vocab_size=500))
        for _ in range(2):
            table = model.get_input_embeddings().weight
            assert table[1:].square().mean().sqrt().item() == pytest.approx(1, rel=0.05)
            assert not table[0].any()
            seed_weights(model, 0)


def test_masked_words_start_near_chance() -> None:
    torch.manual_seed(0)
    model = VnaitForMaskedLM(config(vocab_size=500, hidden_size=64)).eval()
    words = torch.randint(1, 500, (8, 20))
    assert model(words, labels=words).loss.item() == pytest.approx(torch.tensor(500.0).log().item(), abs=1.0)


@pytest.mark.parametrize("method", ["vnait", "vnait-uniform"])
def test_s_starts_small_where_the_output_table_is_that_of_words(method: str, tmp_path: Path) -> None:
    """All that is added to a word is noise in its logits. What a file holds is read as it is."""
    at = build(method, dim=64).coordinates(torch.randn(1, 9, 64), torch.ones(1, 9, dtype=torch.bool))
    encoder, masked = (head(config(method=method, hidden_size=64)) for head in (VnaitModel, VnaitForMaskedLM))

    def scale(model: VnaitModel) -> float:
        return model.method.encoding(at).added.square().mean().sqrt().item()

    for _ in range(2):
        assert scale(masked.model) < 0.25 < 0.7 < scale(encoder)
        seed_weights(encoder, 0)
        seed_weights(masked, 0)
    masked.model.method.encoding.encodings[0].direct.weight.data.fill_(0.5)
    masked.save_pretrained(tmp_path)
    assert scale(VnaitForMaskedLM.from_pretrained(tmp_path).model) == pytest.approx(scale(masked.model))


def test_gates_learn_nothing_from_masked_words(tmp_path: Path) -> None:
    """Nor when the model is loaded again; a classifier on the same encoder learns them."""
    masked = VnaitForMaskedLM(config(method="vnait"))
    masked.save_pretrained(tmp_path)
    loaded = VnaitForMaskedLM.from_pretrained(tmp_path)
    for model in (masked, loaded):
        model(ids(), labels=ids()).loss.backward()
    classifier = VnaitForSequenceClassification.from_pretrained(tmp_path)
    classifier(ids(), labels=torch.tensor([0, 1, 1])).loss.backward()
    for model, learned in ((masked, False), (loaded, False), (classifier, True)):
        gate = model.model.method.coordinates.coordinates.gate
        assert {weight.grad is not None for weight in gate.parameters()} == {learned}


# --- The forward pass


def test_left_padding_without_a_mask() -> None:
    """Every id but the padding id is a real token, wherever it stands."""
    model = VnaitForSequenceClassification(config(num_labels=3)).eval()
    perturb(model)
    logits = model(ids()).logits
    torch.testing.assert_close(logits, model(ids(), ids() != 0).logits)
    for row, words in enumerate(([5, 9, 3, 17], [6, 1], [7, 8])):
        torch.testing.assert_close(logits[row], model(torch.tensor([words])).logits[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.long, torch.float32])
def test_masks_of_every_type(dtype: torch.dtype) -> None:
    model = VnaitForSequenceClassification(config()).eval()
    torch.testing.assert_close(model(ids(), (ids() != 0).to(dtype)).logits, model(ids()).logits)


@pytest.mark.parametrize("vector_size", [0, 6])
def test_vectors_instead_of_ids(vector_size: int) -> None:
    model = VnaitForSequenceClassification(config(vector_size=vector_size)).eval()
    embeds = model.model.vectors(ids())
    logits = model(inputs_embeds=embeds, attention_mask=ids() != 0).logits
    torch.testing.assert_close(logits, model(ids()).logits)
    everything = model(inputs_embeds=embeds).logits  # without a mask all are real
    torch.testing.assert_close(everything, model(ids(), torch.ones_like(ids())).logits)


def test_ids_or_vectors() -> None:
    model = VnaitModel(config())
    for arguments in ({}, {"input_ids": ids(), "inputs_embeds": torch.zeros(3, 4, 16)}):
        with pytest.raises(ValueError, match="give either input_ids or inputs_embeds, and not both"):
            model(**arguments)


def test_frozen_vectors() -> None:
    model = VnaitForSequenceClassification(config(tune_vectors=False)).train()
    model(ids(), labels=torch.tensor([0, 1, 0])).loss.backward()
    assert model.model.vectors.weight.grad is None
    assert model.classifier.weight.grad is not None


@pytest.mark.parametrize("head", HEADS)
def test_attentions_and_states(head: type[PreTrainedModel]) -> None:
    model = head(config(num_hidden_layers=3)).eval()
    perturb(model)
    output = model(ids(), output_attentions=True, output_hidden_states=True)
    assert len(output.attentions) == 3
    assert len(output.hidden_states) == 4
    for weights in output.attentions:
        assert weights.shape == (3, 4, 4, 4)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 4))
        assert not weights[1, ..., 2:].any()
        assert not weights[2, ..., :2].any()
    torch.testing.assert_close(output.hidden_states[-1], model.model(ids()).last_hidden_state)
    states = model(ids(), output_hidden_states=True).hidden_states
    assert torch.equal(states[-1], model.model(ids()).last_hidden_state)
    plain = model(ids())
    assert plain.attentions is None
    assert plain.hidden_states is None
    as_tuple = model(ids(), return_dict=False)
    assert torch.equal(as_tuple[0], plain.logits)


def test_the_mean_is_over_real_tokens() -> None:
    model = VnaitForSequenceClassification(config(num_labels=3)).eval()
    states = model.model(ids()).last_hidden_state
    means = torch.stack([states[0].mean(0), states[1, :2].mean(0), states[2, 2:].mean(0)])
    torch.testing.assert_close(model(ids()).logits, model.classifier(means))


@pytest.mark.parametrize("shape", [(3, 1), (1, 4), (3, 4, 4), (4, 3)])
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    said = re.escape(f"the attention_mask has the shape {shape}, for 3 texts of 4 tokens; give (texts")
    with pytest.raises(InputError, match=said):
        VnaitModel(config())(ids(), torch.ones(shape))
    with pytest.raises(InputError, match=said):
        VnaitForSequenceClassification(config(num_labels=3, unk_token_id=1))(ids(), torch.ones(shape))


def with_a_bag(**settings: object) -> VnaitForSequenceClassification:
    model = VnaitForSequenceClassification(config(num_labels=3, **settings)).eval()
    torch.nn.init.uniform_(model.bag.weights, 0.1, 1.0)
    torch.nn.init.normal_(model.bag.logits)
    torch.nn.init.normal_(model.bag.bias)
    return model


def test_the_bag_of_words_is_added_and_takes_no_gradient() -> None:
    model = with_a_bag(tune_vectors=False)
    bag, rows = model.bag, [row[row != 0] for row in ids()]
    said = []
    for row in rows:
        words, times = row.unique(return_counts=True)
        said.append((bag.weights[words] * torch.log2(1 + times)) @ bag.logits[words] + bag.bias)
    both = model(ids()).logits
    bag.reset_parameters()
    torch.testing.assert_close(both, model(ids()).logits + torch.stack(said))
    model(ids(), labels=torch.zeros(len(rows), dtype=torch.long)).loss.backward()
    assert not any(key.startswith("bag") for key, _ in model.named_parameters())
    assert model.classifier.weight.grad is not None


@pytest.mark.parametrize("hidden", [[], [1], [0, 3]])
def test_the_bag_of_words_counts_words_in_short_and_long_texts_alike(hidden: list[int]) -> None:
    bag = with_a_bag().bag  # 4 tokens have 16 pairs, fewer than the 20 words; 5 have more
    short = torch.tensor([[5, 5, 7, 9], [6, 1, 6, 6]])
    seen = torch.ones_like(short, dtype=torch.bool)
    seen[:, hidden] = False
    long, seen_long = (torch.nn.functional.pad(one, (0, 1)) for one in (short, seen))
    torch.testing.assert_close(bag.each(long, seen_long)[:, :4], bag.each(short, seen))


def test_vectors_alone_are_refused_where_the_bag_of_words_has_a_share() -> None:
    model = with_a_bag()
    vectors = model.get_input_embeddings()(ids())
    with pytest.raises(ValueError, match=r"bag of words reads ids: give input_ids, or drop the bag with"):
        model(inputs_embeds=vectors)
    model.bag.reset_parameters()
    mask = ids() != 0
    torch.testing.assert_close(model(inputs_embeds=vectors, attention_mask=mask).logits, model(ids()).logits)


def test_a_classifier_with_more_words_answers_as_before(tmp_path: Path) -> None:
    model = with_a_bag()
    before, size = model(ids()).logits, model.config.vocab_size
    model.resize_token_embeddings(size + 3, mean_resizing=False)
    torch.testing.assert_close(model(ids()).logits, before)
    model.save_pretrained(tmp_path)
    again = VnaitForSequenceClassification.from_pretrained(tmp_path).eval()
    new = torch.full_like(ids(), size + 1)
    torch.testing.assert_close(again(new).logits, model(new).logits)
    model.resize_token_embeddings(size)
    torch.testing.assert_close(model(ids()).logits, before)


def with_one_hot_words(**settings: object) -> VnaitForSequenceClassification:
    """With a random part for every term of `ids()` and for others that no text has."""
    model = VnaitForSequenceClassification(config(num_labels=3, **settings)).eval()
    terms = terms_of(ids(), ids() != 0, None).unique()
    part = OneHotWords(len(terms), 3, model.config.unk_token_id)
    part.terms.copy_(terms)
    torch.nn.init.normal_(part.logits)
    torch.nn.init.normal_(part.bias)
    model.take(part)
    return model


def test_one_hot_words_add_the_parts_of_words_and_pairs_at_their_places() -> None:
    model = with_one_hot_words()
    row = torch.tensor([[5, 7, 9]])
    first = terms_of(row, torch.ones_like(row, dtype=torch.bool), None)
    model.bag.terms = first[first >= 0].sort().values
    places = [(0, 0, 5, 0), (0, 0, 5, 8), (1, 2, 5, 0), (1, 2, 5, 8), (0, 1, 7, 0), (0, 1, 7, 10)]
    places += [(1, 1, 7, 0), (1, 1, 7, 10), (0, 2, 9, 0), (1, 0, 9, 0)]
    numbers = [((end * 64 + place) * 2**24 + word) * 2**24 + second for end, place, word, second in places]
    assert model.bag.terms.tolist() == sorted(numbers)
    model.bag.logits = logits = torch.randn(10, 3)
    of = dict(zip(sorted(numbers), logits, strict=True))
    parts = [of[number] / 10**0.5 for number in numbers]
    middle = (parts[1] + parts[3]) / 2, (parts[5] + parts[7]) / 2
    expected = [
        parts[0] + parts[2] + middle[0],
        parts[4] + parts[6] + sum(middle),
        parts[8] + parts[9] + middle[1],
    ]
    padded = torch.tensor([[5, 7, 9, 0], [0, 5, 7, 9]])  # padding on either side changes nothing
    each = model.bag.each(padded, padded != 0)
    torch.testing.assert_close(each[0], torch.stack([*expected, torch.zeros(3)]))
    torch.testing.assert_close(each[1, 1:], torch.stack(expected))
    torch.testing.assert_close(model.bag(row, row != 0)[0], sum(expected) + model.bag.bias)


def test_an_unknown_word_is_in_no_term_but_takes_a_place() -> None:
    row = torch.tensor([[5, 1, 9]])
    assert (terms_of(row, row != 0, 1) >= 0).tolist() == [[[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0]]]
    assert terms_of(row, row != 0, 1)[0, 2, 0] == (2 * 2**24 + 9) * 2**24


def test_one_hot_words_end_64_tokens_from_either_end() -> None:
    row = torch.full((1, 140), 5)
    of_word = terms_of(row, row != 0, None)[0, :, [0, 2]] >= 0
    assert of_word.nonzero().T[0].tolist() == [*range(64), *range(76, 140)]


def test_one_hot_words_are_saved_and_resized_with_the_model(tmp_path: Path) -> None:
    model = with_one_hot_words()
    before, size = model(ids()).logits, model.config.vocab_size
    model.resize_token_embeddings(size + 3, mean_resizing=False)
    torch.testing.assert_close(model(ids()).logits, before)
    model.save_pretrained(tmp_path)
    again = VnaitForSequenceClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(ids()).logits, before)
    with pytest.raises(ValueError, match=r"one-hot words read ids: give input_ids, or drop them with"):
        again(inputs_embeds=again.get_input_embeddings()(ids()))
    again.bag.reset_parameters()
    assert not torch.allclose(again(ids()).logits, before)


# --- Losses


def task_loss(model: PreTrainedModel, labels: Tensor) -> Tensor:
    """The loss less the regularizer."""
    return model(ids(), labels=labels).loss - model.model.penalty(model.model.encode(ids()))


def test_cross_entropy_and_the_regularizer() -> None:
    model = VnaitForSequenceClassification(config(num_labels=3, muting=0.5)).eval()
    perturb(model)
    labels = torch.tensor([2, 0, 1])
    expected = nn.functional.cross_entropy(model(ids()).logits, labels)
    assert model.model.penalty(model.model.encode(ids())) > 0
    torch.testing.assert_close(task_loss(model, labels), expected)


def test_regression() -> None:
    model = VnaitForSequenceClassification(config(num_labels=1, problem_type="regression")).eval()
    labels = torch.tensor([0.5, -1.0, 3.0])
    expected = ((model(ids()).logits[:, 0] - labels) ** 2).mean()
    torch.testing.assert_close(task_loss(model, labels), expected)


@pytest.mark.parametrize("head", [VnaitForTokenClassification, VnaitForMaskedLM])
def test_tokens_not_asked_for_are_left_out(head: type[PreTrainedModel]) -> None:
    model = head(config(num_labels=3)).eval()
    perturb(model)
    labels = torch.tensor([[0, -100, 2, -100], [1, -100, -100, -100], [-100, -100, -100, 1]])
    logits = model(ids()).logits
    asked = [(0, 0, 0), (0, 2, 2), (1, 0, 1), (2, 3, 1)]
    expected = -torch.stack([logits[row, place].log_softmax(-1)[label] for row, place, label in asked]).mean()
    torch.testing.assert_close(task_loss(model, labels), expected)


# --- transformers' Trainer


def test_trainer(tmp_path: Path) -> None:
    """A few steps; the best checkpoint is loaded at the end; what it learned is saved and reads back."""
    torch.manual_seed(0)
    words = torch.randint(2, 20, (64, 6))
    rows = [{"input_ids": row, "labels": int(row[0] < row[-1])} for row in words]
    model = VnaitForSequenceClassification(config())
    seed_weights(model, 0)
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "runs"),
        per_device_train_batch_size=16,
        max_steps=12,
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=4,
        save_steps=4,
        learning_rate=0.02,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        dataloader_pin_memory=False,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    after = trainer.evaluate()["eval_loss"]
    assert after == pytest.approx(min(losses[1:]), rel=1e-5)
    assert after < before
    trainer.save_model(str(tmp_path / "best"))
    loaded = load_classifier(tmp_path / "best")
    assert torch.equal(loaded(words).logits, model.eval()(words).logits)


# --- A folder that is no classifier


def test_load_classifier(tmp_path: Path) -> None:
    model = saved(tmp_path, num_labels=5)
    loaded = load_classifier(tmp_path)
    assert not loaded.training
    assert torch.equal(loaded(ids()).logits, model(ids()).logits)
    assert torch.equal(load_classifier(str(tmp_path))(ids()).logits, model(ids()).logits)


def written(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "config.json").write_bytes(content)


def edited(**settings: object) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    return edit


def cut(share: float) -> Callable[[Path], object]:
    def cut_weights(folder: Path) -> None:
        path = folder / "model.safetensors"
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])

    return cut_weights


def without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def with_weights(changes: dict[str, Tensor | None]) -> Callable[[Path], object]:
    def rewrite(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors") | changes
        weights = {name: weight for name, weight in weights.items() if weight is not None}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return rewrite


WRONG_SIZES = r"its weights don't fit its config.json \(for one, {}\)"
# What is done to a saved folder, and the message of loading it.
DAMAGED = [
    (without("config.json"), r"is not a saved model: it has no config.json"),
    *(
        (written(content), r"config.json is damaged: ")
        for content in (b"", b"{", b'{"model_type": "vnait",', b"\x00\x01", b"\xff\xfe\xfa")
    ),
    *((written(content), "is damaged: it is .*, expected an object") for content in (b"[]", b"3", b"null")),
    (written(b'{"model_type": "bert"}'), r"holds no vnait classifier \(its config.json names None\)"),
    (VnaitForMaskedLM(config()).save_pretrained, r"holds no vnait classifier .*VnaitForMaskedLM"),
    (edited(vnait_format=4), "this model is of format 4, and this vnait reads format 9"),
    (edited(hidden_size=-8), "is damaged: "),
    (
        edited(method="mine"),
        r"trained with the method 'mine', which is not known here; register it in vnait\.METHODS",
    ),
    *(
        (cut(share), r"is damaged: .* Save the model again, or train it again")
        for share in (0.0, 0.001, 0.5, 0.99)
    ),
    (without("model.safetensors"), "is damaged: "),
    (with_weights({"classifier.bias": None}), WRONG_SIZES.format("classifier.bias")),
    (with_weights({"stranger": torch.ones(1)}), WRONG_SIZES.format("stranger")),
    (with_weights({"classifier.bias": torch.ones(7)}), "is damaged: "),
]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"nowhere is not a saved model: it has no config.json. .* `vnait train --out`"
    ):
        load_classifier(tmp_path / "nowhere")


@pytest.mark.parametrize(("damage", "message"), DAMAGED)
def test_a_damaged_folder(damage: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    saved(tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError, match=message):
        load_classifier(tmp_path)


class Constants(nn.Module):
    """A part with everything that no file holds: a buffer that isn't saved, a plain tensor, and a weight that
    is frozen.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("rate", 0.3 ** torch.arange(dim), persistent=False)
        self.phase = torch.arange(dim) / dim
        self.gain = nn.Parameter(torch.full((dim,), 0.5), requires_grad=False)

    def forward(self, at: Tensor) -> Injection:
        return Injection(added=self.gain * torch.sin(at[..., :1] * self.rate + self.phase))


def test_what_no_file_holds_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Constants(size.dim)),
        formula="sin",
        source="a test",
    )
    monkeypatch.setitem(METHODS, "constants", recipe)
    model = VnaitForSequenceClassification(config(method="constants")).eval()
    with torch.no_grad():
        model.model.method.encoding.gain.fill_(0.25)
    model.save_pretrained(tmp_path)
    state = torch.get_rng_state()
    loaded = VnaitForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(torch.get_rng_state(), state)
    ids = torch.tensor([[3, 4, 5]])
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert not loaded.model.method.encoding.gain.requires_grad


@pytest.mark.filterwarnings("ignore:(?s).*non-Expr arguments:DeprecationWarning")  # torch 2.6 itself
@pytest.mark.parametrize("method", ["vnait", "vnait-causal", "alibi", "t5"])
@pytest.mark.slow
def test_an_export_holds_for_texts_of_every_length(method: str) -> None:
    model = VnaitForSequenceClassification(config(method=method)).eval()
    ids = torch.randint(1, 9, (3, 9))
    sizes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    told = torch.export.export(
        model, (ids, torch.ones_like(ids)), dynamic_shapes=(sizes, sizes), strict=False
    ).module()
    for length in (2, 16, 17, 40):
        ids = torch.randint(1, 9, (2, length))
        torch.testing.assert_close(told(ids, torch.ones_like(ids)).logits, model(ids).logits)


def test_padding_between_words_is_left_out_with_gradients_and_without():
    torch.manual_seed(0)
    model = VnaitModel(VnaitConfig(method="vnait", vocab_size=50, hidden_size=32)).eval()
    ids = torch.tensor([[5, 6, 0, 0, 7, 8], [5, 6, 7, 8, 0, 0]])
    found = model(ids).last_hidden_state
    with torch.no_grad():
        alone = model(ids).last_hidden_state
    torch.testing.assert_close(found[ids > 0], alone[ids > 0])
    torch.testing.assert_close(alone[0][ids[0] > 0], alone[1, :4])


def test_a_configuration_has_the_name_of_a_method():
    method = Method(coordinates=Index(), encoding=Sinusoid(dim=8))
    with pytest.raises(
        InputError, match=r"method is a Method; a configuration has the name of one\. Add it to"
    ):
        VnaitConfig(method=method)
