"""Where each token is: coordinates, (B, T, C) real numbers, from a mask and, for some, from the semantic vectors.

Every part is called `coordinates(vectors, mask)` with `vectors` (B, T, D) or None and `mask` (B, T), True = real token, and says

    causal        a token's coordinate never depends on what follows it
    per_sentence  two sentences with the same mask may get different coordinates

Whatever the part, padding gets the coordinate of the nearest real token, without gradient, and changes no real token's coordinate.
Axis 0 is the main coordinate. Sums run in float32, in float64 where float32 can't keep neighbours apart, whatever the model's dtype.
"""

from vnait.coordinates.sources import Content, Free, Uniform, Warp
from vnait.coordinates.spans import MIN_GAP, SPAN, Ends, Index, Running, Saturating, SoftBounds, Span, check_mask
from vnait.coordinates.wrappers import Jitter, Randomized

__all__ = [
    "MIN_GAP",
    "SPAN",
    "Content",
    "Ends",
    "Free",
    "Index",
    "Jitter",
    "Randomized",
    "Running",
    "Saturating",
    "SoftBounds",
    "Span",
    "Uniform",
    "Warp",
    "check_mask",
]
