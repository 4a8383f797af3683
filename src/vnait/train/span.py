"""Few texts with many terms, as a matrix with no more columns than rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

MOST = 1_000  # rows; the time is cubic in their number
WIDE = 4  # columns per row
SMALL = 1e-12  # of the largest eigenvalue: what is below is rounding

Array = NDArray[np.float64]


def in_span(rows: Any) -> tuple[Any, Callable[[Array], Array]]:
    """Rows X (n, F) as Z (n, r), r <= n, with Z Z^T = X X^T, and what turns weights (C, r) of Z into those
    (C, F) of X.

    An L2 penalty leaves the weights of a linear model in the span of its rows (the representer theorem,
    Schölkopf et al. 2001), so a fit to Z has the logits of a fit to X. X is returned as it is where that
    saves no time, with fewer than `WIDE` columns per row or more than `MOST` rows, and if all of it is zero.

    >>> narrow, widen = in_span(np.array([[3.0, 0.0, 4.0, 0.0]]))
    >>> abs(narrow).tolist(), widen(narrow).tolist()
    ([[5.0]], [[3.0, 0.0, 4.0, 0.0]])
    """
    count, columns = rows.shape
    usable = 0 < abs(rows).sum() < np.inf  # scikit-learn names what is not finite
    if columns < WIDE * count or count > MOST or not usable:
        return rows, lambda weights: weights
    rows = rows.astype(np.float64)  # embeddings are float32, whose rounding is far above `SMALL`
    products = rows @ rows.T
    squares, axes = np.linalg.eigh(products.toarray() if sparse.issparse(products) else products)
    large = squares > SMALL * squares[-1]
    lengths, axes = np.sqrt(squares[large]), axes[:, large]
    return axes * lengths, lambda weights: (rows.T @ (axes @ (weights / lengths).T)).T
