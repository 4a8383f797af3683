"""The input layer, from semantic vectors e and added vectors s to the backbone's input x; the regularizers.

Every part is called `inputs(vectors, added)` with `vectors` (B, T, D), zero at padding, and `added` (B, T, D)
or None, and has the flag `causal`: x_i never depends on what follows token i. With the flag
`reads_coordinates` it is called `inputs(vectors, added, at)`, with the coordinates (B, T, C), not jittered.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
