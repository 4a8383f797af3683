"""How "where" is told: encodings, from coordinates (B, T, C) to an `Injection`. They read axis 0 unless they say otherwise.

Beside the call, an encoding may say

    causal      False where what it tells of a token depends on what follows it
    relative    True where the same shift of all coordinates changes no score

spatial.py        the spatial vector, and the features that it reads                    added
codes.py          sinusoid, bits, linear code, harmonics                                added
tables.py         learned tables of a position or of a place in a grid                  added
turn.py           angles that rotate queries and keys; their scaling rules and layouts  turn
bias.py           formulas of distances                                                 bias
bias_tables.py    learned tables of a distance, of a share of the prefix, of a pair     bias
combined.py       an axis chosen, encodings added up or side by side; silence           any
shared.py         precision, and reading coordinates and tables
"""

from vnait.encodings.bias import Decay, Fire, Kerple, Slopes, alibi_slopes
from vnait.encodings.bias_tables import Buckets, Contacts, Prefix, Relative
from vnait.encodings.codes import Binary, Harmonics, Linear, Sinusoid
from vnait.encodings.combined import Axis, Concatenated, Silent, Sum
from vnait.encodings.spatial import Anchors, Centre, Fourier, LearnedFourier, Scalar, Spatial
from vnait.encodings.tables import GridTable, Table
from vnait.encodings.turn import Axial, Rotary, Scaling, XPos, convert_layout

__all__ = [
    "Anchors",
    "Axial",
    "Axis",
    "Binary",
    "Buckets",
    "Centre",
    "Concatenated",
    "Contacts",
    "Decay",
    "Fire",
    "Fourier",
    "GridTable",
    "Harmonics",
    "Kerple",
    "LearnedFourier",
    "Linear",
    "Prefix",
    "Relative",
    "Rotary",
    "Scalar",
    "Scaling",
    "Silent",
    "Sinusoid",
    "Slopes",
    "Spatial",
    "Sum",
    "Table",
    "XPos",
    "alibi_slopes",
    "convert_layout",
]
