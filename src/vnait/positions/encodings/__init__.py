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
content.py        changes of the scores by queries and keys, inside the layers          score_mod
combined.py       one axis, sums, encodings side by side; no position                   any
shared.py         precision, and reading coordinates and tables
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
