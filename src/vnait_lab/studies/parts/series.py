"""Time series, generated and from statsmodels, and the code of a time by its phases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.positions.coordinates import Phase
from vnait.positions.encodings import Harmonics
from vnait_lab.study import data_folder

TRAINED, VALIDATION, TESTED = 8640, 2880, 2880  # hours of ETTh1, the usual split (Zhou et al. 2021)
REAL = ("elnino", "co2", "co2, detrended", "co2, differences", "sunspots")


def etth1() -> Float[Tensor, "hours series"]:
    """The seven hourly series of ETTh1, in VNAIT_DATA: HUFL, HULL, MUFL, MULL, LUFL, LULL, OT; float32."""
    table = pd.read_csv(data_folder("etth1") / "ETTh1.csv").drop(columns="date")
    return torch.tensor(table.to_numpy(), dtype=torch.float32)


def generated(variant: str, seed: int) -> Tensor:
    """Ten weeks of 5 days of 24 hours: (1200,), float64.

    "sinusoidal" or "office hours" with noise of variance .09, or the "noise" alone.
    """
    random = Generator().manual_seed(seed)
    noise = 0.3 * torch.randn(1200, generator=random, dtype=torch.float64)
    hour = torch.arange(1200, dtype=torch.float64)
    if variant == "noise":
        return noise
    if variant == "sinusoidal":
        return 1.5 * torch.sin(2 * math.pi * hour / 120) + torch.sin(2 * math.pi * hour / 24 + 1) + noise
    of_day = torch.tensor([1.0, -0.5, 0.3, 0.8, -1.6], dtype=torch.float64)[(hour // 24 % 5).long()]
    return of_day + 1.5 * ((hour % 24 >= 9) & (hour % 24 < 17)) + noise


def real(name: str) -> Float[Tensor, " N"]:
    """A series of `REAL` in order of time, float64: monthly, or yearly (sunspots)."""
    from statsmodels import datasets

    data = getattr(datasets, name.split(",")[0]).load_pandas().data
    if name == "elnino":
        return torch.tensor(data.drop(columns="YEAR").to_numpy().ravel(), dtype=torch.float64)
    if name == "sunspots":
        return torch.tensor(data["SUNACTIVITY"].to_numpy(), dtype=torch.float64)
    months = torch.tensor(data["co2"].resample("MS").mean().interpolate().to_numpy(), dtype=torch.float64)
    if name == "co2, differences":
        return months.diff()
    return detrended(months) if name == "co2, detrended" else months


def detrended(months: Float[Tensor, " N"]) -> Float[Tensor, " M"]:
    """Subtract the mean of the year around each month, which includes half a year of the future.

    >>> detrended(torch.arange(15, dtype=torch.float64)).abs().max() < 1e-12
    tensor(True)
    """
    year = torch.tensor([0.5] + [1.0] * 11 + [0.5], dtype=torch.float64) / 12
    return months[6:-6] - F.conv1d(months[None, None], year[None, None])[0, 0]


def phases(times: Float[Tensor, " N"], periods: Sequence[float], harmonics: int = 1) -> Float[Tensor, "N D"]:
    """sin and cos of each period's phase and of its harmonics, D = 2 * harmonics * periods; float64.

    >>> phases(torch.tensor([3.0, 15.0]), [12.0]).abs().round().tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    at = Phase(periods=periods)(
        None, torch.ones(1, len(times), dtype=torch.bool), times.double()[None, :, None]
    )
    added = Harmonics(dim=2 * harmonics * len(periods), axes=len(periods))(at).added
    assert added is not None
    return added[0]
