"""Coordinates: (B, T, C) real numbers, a position per token, from a mask and for some from the vectors.

Every part is called `coordinates(vectors, mask)` with `vectors` (B, T, D) or None and `mask` (B, T), True =
real token, and has the flags

    causal           a token's coordinate never depends on what follows it
    per_sentence     two sentences with the same mask may get different coordinates
    takes_positions  it can be called `coordinates(vectors, mask, positions)`, with known positions (B, T, P),
                     such as timestamps, or rows and columns

shared.py       shapes, padding, known positions
sources.py      sources of a span's gaps: uniform, free, a warp, the words
elastic.py      along a text, with a learned weight of each token
spans.py        along a text: the index, the span, the running coordinate, the ends
grids.py        several axes: grids, segments, phases, coordinates side by side
spectrum.py     eigenvectors of a graph
graphs.py       known positions of a batch of graphs: eigenvectors, returns of a walk
moving.py       random changes of positions in training

Padding gets the coordinate of the nearest real token, without gradient, and changes no real token's
coordinate. Axis 0 is the main coordinate. Sums are in float32, or in float64 if float32 can't separate
neighbours, whatever the model's dtype.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
