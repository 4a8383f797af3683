"""Models that read images in patches, as ViT: a class token, then the patches in reading order.

Their position table is a parameter, one row per token, of the module that makes the tokens' vectors.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from vnait.positions.cache import Vectors
from vnait.positions.coordinates import Grid
from vnait.positions.injection import Injection
from vnait.positions.method import Method, MethodOutput
from vnait.shared.errors import InputError

Shape = tuple[int, int]  # rows, columns


@dataclass(frozen=True, kw_only=True)
class Patches:
    """How a model makes tokens of an image: `before` of its own, such as the class token, then one per patch.

    path      of the module that does it, in the model; `inputs`: what it takes beside pixels
    grid      rows and columns of the images that the position table is for
    size      of a patch in pixels
    """

    path: str
    inputs: tuple[str, ...]
    before: int
    grid: Shape
    size: Shape

    def shape(self, pixels: Float[Tensor, "B C height width"]) -> Shape:
        """Rows and columns of patches in these images."""
        return pixels.shape[2] // self.size[0], pixels.shape[3] // self.size[1]


def patches_of(owner: nn.Module) -> Patches | None:
    """By structure: a table of position and a convolution that makes patches, in one part of the model."""
    reads = inspect.signature(owner.forward).parameters
    if not isinstance(owner, PreTrainedModel) or "input_ids" in reads or "pixel_values" not in reads:
        return None
    for path, part in owner.named_children():
        table, cut = part._parameters.get("position_embeddings"), getattr(part, "patch_embeddings", None)
        sizes = [getattr(cut, name, None) for name in ("image_size", "patch_size")]
        pairs = all(isinstance(size, tuple | list) and len(size) == 2 for size in sizes)
        if table is None or not pairs or not isinstance(getattr(cut, "projection", None), nn.Conv2d):
            continue
        if "register_tokens" in part._parameters:
            raise InputError(
                f"{type(owner).__name__} has register tokens, which are between its first token and its "
                "patches; take a model without them."
            )
        (height, width), (tall, wide) = sizes  # type: ignore[misc]
        grid = height // tall, width // wide
        before = table.shape[1] - grid[0] * grid[1]
        if before >= 0 and "dropout" in part._modules:
            inputs = tuple(inspect.signature(getattr(part, "plain", type(part)).forward).parameters)[2:]
            return Patches(path=path, inputs=inputs, before=before, grid=grid, size=(tall, wide))
    return None


def random_images(owner: nn.Module, patches: Patches, count: int) -> Float[Tensor, "B C height width"]:
    """Noise, with a colour of its own in every patch; the same on every call."""
    cut: Any = owner.get_submodule(f"{patches.path}.patch_embeddings")
    weight: Tensor = cut.projection.weight
    channels, (rows, columns), (tall, wide) = weight.shape[1], patches.grid, patches.size
    generator = torch.Generator().manual_seed(0)
    colours = torch.randn(count, channels, rows, columns, generator=generator)
    noise = torch.randn(count, channels, rows * tall, columns * wide, generator=generator)
    image = colours.repeat_interleave(tall, 2).repeat_interleave(wide, 3) + noise
    return image.to(weight)


def permuted(image: Float[Tensor, "B C height width"], patches: Patches) -> Tensor:
    """The image with all patches but the last in reverse order."""
    cut = F.unfold(image, patches.size, stride=patches.size)
    reordered = torch.cat([cut[..., :-1].flip(-1), cut[..., -1:]], -1)
    return F.fold(reordered, image.shape[2:], patches.size, stride=patches.size)


def check_images(inputs: Mapping[str, Any]) -> None:
    """`InputError` for inputs that would give wrong results."""
    pixels = inputs["pixel_values"]
    if pixels.ndim != 4:
        raise InputError(
            f"pixel_values have the shape {tuple(pixels.shape)}; give (images, channels, height, width)."
        )
    if inputs.get("attention_mask") is not None:
        raise InputError("an attached method reads every patch of an image; leave attention_mask out.")


def on_cells(method: Method, vectors: Vectors, patches: Patches, shape: Shape) -> MethodOutput:
    """The method on the patches alone, with known places; a class token is outside the grid: nothing is added
    to it, and it is neither rotated nor near or far.

    Places are row and column in cells of the model's own grid. In images of another size, the first and last
    rows and columns stay at its ends.
    """
    ends = [torch.linspace(0, size - 1, count) for size, count in zip(patches.grid, shape, strict=True)]
    places = torch.cartesian_prod(*ends).to(vectors.device)[None]
    before, cells = vectors[:, : patches.before], vectors[:, patches.before :]
    mask = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
    x, injection, at = method(cells, mask, places.expand(len(cells), -1, -1))
    injection, extra = injection.dense(), patches.before
    rotary, bias = injection.rotary, injection.bias
    return MethodOutput(
        torch.cat([before, x], 1),
        Injection(
            rotary=None if rotary is None else F.pad(rotary, (0, 0, extra, 0)),
            bias=None if bias is None else F.pad(bias, (extra, 0, extra, 0)),
        ),
        F.pad(at, (0, 0, extra, 0)),
    )


def has_cells(method: Method) -> bool:
    """Whether its coordinates are those of a grid."""
    return any(isinstance(part, Grid) for part in method.coordinates.modules())


def resized(rows: Float[Tensor, "N D"], patches: Patches, shape: Shape) -> Float[Tensor, "T D"]:
    """A table for images of another size: bicubic between patches' rows, as `interpolate_pos_encoding`."""
    cells = rows[patches.before :].T.unflatten(1, patches.grid)[None]
    cells = F.interpolate(cells, size=shape, mode="bicubic", align_corners=False)
    return torch.cat([rows[: patches.before], cells[0].flatten(1).T])
