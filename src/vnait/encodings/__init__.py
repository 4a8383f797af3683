"""How "where" is told: encodings, from coordinates (B, T, C) to an `Injection`. They read axis 0 unless they say otherwise.

added.py    vectors that join the words in the input layer
"""

from vnait.encodings.added import Anchors, Fourier, Scalar, Silent, Sinusoid, Spatial, Table

__all__ = ["Anchors", "Fourier", "Scalar", "Silent", "Sinusoid", "Spatial", "Table"]
