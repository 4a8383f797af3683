"""Attached methods in models that read images in patches: warm starts, grids, other sizes, saved folders."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from torch import Tensor, nn

import vnait
from conftest import unchecked
from test_clients import replica_of
from vnait import InputError, Method
from vnait.positions.coordinates import Diagonal, Grid
from vnait.positions.encodings import GridTable
from vnait.pretrained import lengthen, load_adapter, save_adapter, save_base
from vnait.pretrained.attach.attached import attached_owners
from vnait.pretrained.images import patches_of, resized

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 12,
    "patch_size": 3,
}
KINDS = {"vit": "ViT", "deit": "DeiT", "dinov2": "Dinov2"}  # one class token, two, one and masks of its own
every_kind = pytest.mark.parametrize("kind", KINDS)


def model_of(kind: str = "vit", part: str = "ForImageClassification", **changes: Any) -> Any:
    """A random model, its weights enlarged so that positions matter."""
    config = getattr(transformers, f"{KINDS[kind]}Config")(**{**SIZES, **changes})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, KINDS[kind] + part)(config).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name.endswith("position_embeddings"):
                    weight.normal_()  # some start at 0
                elif weight.ndim > 1:
                    weight.mul_(4)
    return model


def attached_to(kind: str = "vit", method: str | Method = "vnait", **options: Any) -> Any:
    """With all attached weights random, as after training."""
    model = model_of(kind)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)
        vnait.attach(model, method, **options)
        for name, weight in owner_of(model).vnait.named_parameters():
            if not name.startswith("old."):
                weight.add_(torch.randn_like(weight), alpha=0.3)
    return model


def owner_of(model: nn.Module) -> Any:
    return next(iter(attached_owners(model).values()))


def images_of(height: int = 12, width: int = 12) -> Tensor:
    return torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(3))


@torch.no_grad()
def logits(model: nn.Module, images: Tensor, **more: Any) -> Tensor:
    return model(images, **more).logits


@every_kind
def test_warm_start_keeps_the_outputs_and_detach_gives_the_model_back(kind):
    model, images = model_of(kind), images_of()
    before, weights = logits(model, images), copy.deepcopy(model.state_dict())
    assert vnait.audit(model).leftover > 1e-3
    report = vnait.attach(model)
    assert report.difference == 0 and report.replaced == (f"{kind}.embeddings.position_embeddings",)
    assert torch.equal(logits(model, images), before)
    audit = vnait.audit(model)
    assert [source.active for source in audit.sources] == [False, True] and audit.leftover < 1e-5
    assert all(torch.equal(weights[name], model.state_dict()[name]) for name in weights)
    frozen = [name for name, weight in model.named_parameters() if not weight.requires_grad]
    assert frozen == [f"{kind}.embeddings.position_embeddings"]
    vnait.detach(model)
    assert list(model.state_dict()) == list(weights) and type(model) is type(model_of(kind))
    assert torch.equal(logits(model, images), before)
    assert all(weight.requires_grad for weight in model.parameters())


@every_kind
@pytest.mark.parametrize("method", ["vnait", "grid-separable"])
def test_a_cold_start_drops_the_models_own_position(kind, method):
    model, images = model_of(kind), images_of()
    assert vnait.attach(model, method, warm_start=None).difference > 0.1
    after = logits(model, images)
    with torch.no_grad():
        dict(model.named_parameters())[f"{kind}.embeddings.position_embeddings"].add_(1)
    assert torch.equal(logits(model, images), after)


@every_kind
def test_gradients_reach_every_parameter(kind):
    model = attached_to(kind)
    model(images_of()).logits.square().mean().backward()
    for name, weight in model.named_parameters():
        if "vnait." in name:
            assert weight.grad is not None and weight.grad.abs().max() > 0, name


@pytest.mark.parametrize("size", [(18, 15), (6, 9)])
def test_other_sizes_are_read_as_the_model_does_before_training(size):
    """`interpolate_pos_encoding`; without it, the model refuses them."""
    model, images = model_of(), images_of(*size)
    before = logits(model, images, interpolate_pos_encoding=True)
    vnait.attach(model)
    after = logits(model, images, interpolate_pos_encoding=True)
    assert torch.allclose(after, before, atol=1e-4)
    with pytest.raises(ValueError, match=r"doesn't match model \(12\*12\)"):
        model(images)


def test_a_grid_need_not_be_square():
    model, images = model_of(image_size=(6, 12), patch_size=(3, 2)), images_of(6, 12)
    before = logits(model, images)
    assert vnait.attach(model).difference == 0
    assert torch.equal(logits(model, images), before)
    assert owner_of(model).vnait.patches.grid == (2, 6)
    assert torch.isfinite(logits(model, images_of(9, 4), interpolate_pos_encoding=True)).all()


@pytest.mark.parametrize("method", ["grid-separable", "grid-additive", "grid-diagonal", "grid-learned"])
def test_a_grid_method_adds_to_the_patches_by_row_and_column_and_nothing_to_the_class_token(method):
    """In an image of twice as many rows and a column less, first and last are where they were."""
    model = attached_to(method=method, warm_start=None)
    attached = owner_of(model).vnait
    e = 8 * torch.randn(2, 17, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        x = attached(e, torch.ones(2, 17, dtype=torch.bool), shape=(4, 4)).x
        cells = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
        mask = torch.ones(2, 16, dtype=torch.bool)
        expected = attached.method(e[:, 1:] / attached.scale, mask, cells.expand(2, -1, -1)).x
        assert torch.equal(x[:, 0], e[:, 0])
        assert torch.allclose(x[:, 1:], expected * attached.scale, atol=1e-6)
        added = (x - e)[:, 1:].unflatten(1, (4, 4))
        zero = torch.zeros(1, 25, 16)
        other = (
            attached(zero, torch.ones(1, 25, dtype=torch.bool), shape=(8, 3)).x[:, 1:].unflatten(1, (8, 3))
        )
    assert torch.allclose(other[0, ::7, ::2], added[0, ::3, ::3], atol=1e-5)


def test_a_grid_rotation_leaves_the_class_token_and_turns_rows_and_columns():
    model, images = attached_to(method="grid-rope", warm_start=None), images_of()
    attached = owner_of(model).vnait
    angles = attached(torch.zeros(1, 17, 16), torch.ones(1, 17, dtype=torch.bool), shape=(4, 4)).rotary[0]
    assert not angles[0].any()
    grid = angles[1:].unflatten(0, (4, 4))
    assert torch.allclose(grid, grid[:1, :] + grid[:, :1]) and grid[3, 0].any() and grid[0, 3].any()
    before = logits(model, images)
    shifted = images.roll(3, 3)
    assert not torch.allclose(logits(model, shifted), before, atol=1e-3)
    model.set_attn_implementation("eager")
    with pytest.raises(InputError, match=r"eager attention ignores the rotation of the method"):
        model(images)


@pytest.mark.parametrize("method", ["rope", "alibi", "t5"])
def test_other_methods_read_the_tokens_in_order(method):
    """The class token first, as the first token of a text."""
    model, images = attached_to(method=method, warm_start=None), images_of()
    attached = owner_of(model).vnait
    output = attached(torch.zeros(1, 17, 16), torch.ones(1, 17, dtype=torch.bool), shape=(4, 4))
    plain = attached.method(torch.zeros(1, 17, 16), torch.ones(1, 17, dtype=torch.bool)).injection.dense()
    for found, wanted in ((output.rotary, plain.rotary), (output.bias, plain.bias)):
        assert found is wanted is None or torch.equal(found, wanted)
    before = logits(model, images)
    attached.disabled = True
    assert not torch.allclose(logits(model, images), before, atol=1e-3)


def test_a_table_of_another_size_is_bicubic_between_the_patches():
    rows = torch.randn(17, 8, generator=torch.Generator().manual_seed(0))
    patches = patches_of(model_of().vit)
    assert torch.allclose(resized(rows, patches, (4, 4)), rows, atol=1e-6)
    embeddings = model_of(hidden_size=8, num_attention_heads=1).vit.embeddings
    with torch.no_grad():
        embeddings.position_embeddings.copy_(rows[None])
        expected = embeddings.interpolate_pos_encoding(torch.zeros(1, 31, 8), 18, 15)[0]
    assert torch.equal(resized(rows, patches, (6, 5)), expected)


@every_kind
def test_a_call_past_the_models_forward_is_an_error(kind):
    model, images = attached_to(kind), images_of()
    owner = owner_of(model)
    past = r"was called without the attached model's forward, .* call the model itself"
    with pytest.raises(InputError, match=rf"the silenced position table {past}"):
        owner.embeddings(images)
    with pytest.raises(InputError, match=past):
        owner.embeddings(torch.zeros(2, 17, 16))
    with pytest.raises(InputError, match=past):
        type(owner).plain.forward(owner, pixel_values=images)
    with torch.no_grad():
        assert torch.equal(owner.forward(images)[0], owner(pixel_values=images)[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_mask": torch.ones(2, 17)}, "an attached method reads every patch of an image"),
        ({"pixel_values": torch.zeros(3, 12, 12)}, r"pixel_values have the shape \(3, 12, 12\); give"),
    ],
)
def test_inputs_that_would_give_wrong_results_are_refused(changes, message):
    model = attached_to()
    with pytest.raises(InputError, match=message):
        model(**{"pixel_values": images_of(), **changes})


def test_masked_patches_are_the_models_own():
    model, images = model_of(part="ForMaskedImageModeling", encoder_stride=3), images_of()
    masked = torch.arange(16).expand(2, -1) % 3 == 0
    before = model(images, bool_masked_pos=masked)
    vnait.attach(model)
    after = model(images, bool_masked_pos=masked)
    assert torch.equal(after.reconstruction, before.reconstruction) and torch.equal(after.loss, before.loss)


def test_dropout_comes_after_position():
    model = model_of(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.0).vit.train()
    images = images_of()
    seen: list[Tensor] = []
    model.layers[0].register_forward_pre_hook(lambda layer, args: seen.append(args[0]))
    for attach in (False, True):
        if attach:
            vnait.attach(model, "sinusoidal")  # draws no random numbers
            seen.clear()
        torch.manual_seed(0)
        model(images)
        if not attach:
            plain = seen.pop()
    assert torch.equal(seen.pop(), plain)


@every_kind
def test_copies_and_replicas_have_their_method(kind):
    model, images = attached_to(kind), images_of()
    expected, replica = logits(model, images), replica_of(model)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(logits(twin, images), expected)
        vnait.detach(twin)
        assert torch.equal(logits(twin, images), logits(model_of(kind), images))
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert torch.allclose(logits(replica, images), expected, rtol=1e-5, atol=2e-5)


@every_kind
@pytest.mark.parametrize("method", ["vnait", "grid-learned"])
def test_saved_folders_load_with_their_method(kind, method, tmp_path):
    model, images = attached_to(kind, method), images_of()
    save_adapter(model, tmp_path / "adapter")
    again = model_of(kind)
    load_adapter(again, tmp_path / "adapter")
    assert torch.equal(logits(again, images), logits(model, images))
    with torch.no_grad():
        owner_of(model).embeddings.patch_embeddings.projection.weight.mul_(3)  # and so `attach` would scale
    model.save_pretrained(tmp_path / "model")
    loaded = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "model")
    assert torch.equal(logits(loaded, images), logits(model, images))
    body = transformers.AutoModel.from_pretrained(tmp_path / "model")
    assert torch.equal(body(images)[0], owner_of(model)(images)[0])
    with pytest.raises(ValueError, match="quantization"):
        type(model_of(kind)).from_pretrained(tmp_path / "model")
    save_base(model, tmp_path / "base")
    plain = type(model_of(kind)).from_pretrained(tmp_path / "base")
    vnait.detach(model)
    assert torch.equal(logits(plain, images), logits(model, images))


def test_a_pipeline_reads_images_by_a_saved_method(tmp_path):
    model = attached_to(warm_start=None)
    model.save_pretrained(tmp_path)
    reader = transformers.ViTImageProcessorPil(size={"height": 12, "width": 12})
    reader.save_pretrained(tmp_path)
    image = Image.fromarray(np.random.default_rng(0).integers(256, size=(30, 40, 3), dtype=np.uint8))
    expected = logits(model, reader(image, return_tensors="pt")["pixel_values"]).softmax(-1)[0]
    found = transformers.pipeline("image-classification", model=str(tmp_path))(image)
    scores = {one["label"]: one["score"] for one in found}
    assert torch.allclose(torch.tensor([scores["LABEL_0"], scores["LABEL_1"]]), expected)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft asks for it
def test_peft_keeps_an_adapter_beside_the_method(tmp_path):
    from peft import LoraConfig, PeftModel, get_peft_model

    options = LoraConfig(target_modules=["q_proj"], modules_to_save=["vnait"], init_lora_weights=False)
    tuned, images = get_peft_model(attached_to(), options).eval(), images_of()
    tuned.save_pretrained(tmp_path)
    base = model_of()
    vnait.attach(base)
    assert not torch.allclose(logits(base, images), logits(tuned, images), atol=1e-3)
    assert torch.equal(logits(PeftModel.from_pretrained(base, tmp_path), images), logits(tuned, images))


def test_a_trainer_trains_the_method_and_saves_it(tmp_path):
    model, images = attached_to(), images_of()
    before = logits(model, images)
    settings = transformers.TrainingArguments(str(tmp_path), max_steps=2, report_to=[], use_cpu=True)
    rows = [{"pixel_values": images[row], "labels": row} for row in range(2)]
    trainer = transformers.Trainer(model=model, args=settings, train_dataset=rows)
    trainer.train()
    trainer.save_model()
    loaded = transformers.AutoModelForImageClassification.from_pretrained(tmp_path)
    after = logits(loaded, images)
    assert torch.equal(after, logits(model.eval(), images)) and not torch.allclose(after, before)
    trained = zip(
        owner_of(loaded).vnait.parameters(), owner_of(attached_to()).vnait.parameters(), strict=True
    )
    assert any(not torch.equal(*pair) for pair in trained)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions(dtype):
    model, images = model_of().to(dtype), images_of()
    before = logits(model, images)
    vnait.attach(model)
    assert logits(model, images).dtype == dtype
    assert torch.allclose(logits(model, images), before, atol=float(16 * torch.finfo(dtype).eps))


REFUSED = {
    "another model of images": (
        lambda: transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**SIZES)),
        r"CLIPVisionModel can't be attached to: .* images in patches by a position table .* it has none",
    ),
    "tokens that come later": (
        lambda: transformers.Dinov2WithRegistersModel(transformers.Dinov2WithRegistersConfig(**SIZES)),
        r"Dinov2WithRegistersModel has register tokens, which are between",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_models_of_another_structure_are_refused_and_unchanged(case):
    make, message = REFUSED[case]
    model = make().eval()
    kinds, keys = [type(part) for part in model.modules()], list(model.state_dict())
    with unchecked(), pytest.raises(InputError, match=message):
        vnait.attach(model)
    assert [type(part) for part in model.modules()] == kinds and list(model.state_dict()) == keys


def test_an_image_model_is_not_lengthened():
    with pytest.raises(InputError, match=r"ViTModel reads images, and .* texts"):
        lengthen(model_of().vit, "windows")


def test_places_are_those_of_any_grid():
    """A method of one's own, on rotated axes."""
    own = Method(coordinates=Diagonal(Grid(shape=(-1, 4))), encoding=GridTable(dim=16, shape=(6, 6)))
    model = model_of()
    with pytest.raises(ValueError, match="outside the learned table"):
        vnait.attach(model, own, warm_start=None)
    assert torch.equal(logits(model, images_of()), logits(model_of(), images_of()))
