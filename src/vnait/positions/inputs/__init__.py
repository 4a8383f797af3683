"""The input layer, from semantic vectors e and added vectors s to the backbone's input x; the regularizers.

Every part is called `inputs(vectors, added)` with `vectors` (B, T, D), zero at padding, and `added` (B, T, D)
or None, and has the flag `causal`: x_i never depends on what follows token i. With the flag
`reads_coordinates` it is called `inputs(vectors, added, at)`, with the coordinates (B, T, C), not jittered.
"""

from vnait.positions.inputs.fusion import Add, Fusion, LiteralFusion, cosine
from vnait.positions.inputs.neighbours import Condensed, Local, Nearest, Neighbours
from vnait.positions.inputs.regularizers import boundary, muting, smoothness

__all__ = [
    "Add",
    "Condensed",
    "Fusion",
    "LiteralFusion",
    "Local",
    "Nearest",
    "Neighbours",
    "boundary",
    "cosine",
    "muting",
    "smoothness",
]
