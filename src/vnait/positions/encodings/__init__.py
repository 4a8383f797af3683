"""Encodings, from coordinates (B, T, C) to an `Injection`. They read axis 0 unless stated otherwise.

An encoding may have two flags:

    causal      False if the injection of a token depends on what follows it (default True)
    relative    True if the same shift of all coordinates changes no score (default False)

spatial.py        the spatial vector, and the features that it reads                    added
codes.py          sinusoid, bits, linear code, harmonics                                added
tables.py         learned tables of a position or of a place in a grid                  added
rotary.py         angles that rotate queries and keys; their scaling rules and layouts  rotary
bias.py           formulas of distances                                                 bias
bias_tables.py    learned tables of a distance, of a share of the prefix                 bias
scores.py         changes of the scores by queries and keys, inside the layers          score_mod
combined.py       one axis, sums, encodings side by side; no position                   any
shared.py         precision, and reading coordinates and tables
"""

from vnait.positions.encodings.bias import AlibiBias, CableBias, Fire, Kerple, alibi_slopes
from vnait.positions.encodings.bias_tables import Prefix, ShawBias, T5Bias
from vnait.positions.encodings.codes import Binary, Harmonics, Linear, Sinusoid
from vnait.positions.encodings.combined import Axis, Concatenated, NoPosition, Sum
from vnait.positions.encodings.rotary import Axial, MixedRotary, PartialRotary, Rotary, XPos
from vnait.positions.encodings.rotary_scaling import Scaling
from vnait.positions.encodings.scores import Cope, Nape, ScaleInvariant
from vnait.positions.encodings.spatial import Anchors, Centre, Fourier, LearnedFourier, Scalar, Spatial
from vnait.positions.encodings.tables import GridTable, Table

__all__ = [
    "AlibiBias",
    "Anchors",
    "Axial",
    "Axis",
    "Binary",
    "CableBias",
    "Centre",
    "Concatenated",
    "Cope",
    "Fire",
    "Fourier",
    "GridTable",
    "Harmonics",
    "Kerple",
    "LearnedFourier",
    "Linear",
    "MixedRotary",
    "Nape",
    "NoPosition",
    "PartialRotary",
    "Prefix",
    "Rotary",
    "Scalar",
    "ScaleInvariant",
    "Scaling",
    "ShawBias",
    "Sinusoid",
    "Spatial",
    "Sum",
    "T5Bias",
    "Table",
    "XPos",
    "alibi_slopes",
]
