"""How "where" is told: encodings, from coordinates (B, T, C) to an `Injection`. They read axis 0 unless they say otherwise.

added.py    vectors that join the words in the input layer
turn.py     angles that rotate queries and keys
bias.py     numbers added to the attention scores
"""

from vnait.encodings.added import Anchors, Fourier, Scalar, Silent, Sinusoid, Spatial, Table
from vnait.encodings.bias import Buckets, Decay, Fire, Kerple, Relative, Slopes, alibi_slopes
from vnait.encodings.turn import Axial, Rotary, Scaling, convert_layout

__all__ = [
    "Anchors",
    "Axial",
    "Buckets",
    "Decay",
    "Fire",
    "Fourier",
    "Kerple",
    "Relative",
    "Rotary",
    "Scalar",
    "Scaling",
    "Silent",
    "Sinusoid",
    "Slopes",
    "Spatial",
    "Table",
    "alibi_slopes",
    "convert_layout",
]
