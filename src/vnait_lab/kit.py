"""What a study needs besides its form (`vnait_lab.study`): rules of verdicts, panels, and training.

Two modules, so that the imports of a study are two lines.
"""

from matplotlib.figure import Figure

from vnait_lab.rules import above, ahead, at_most, below, clear, decided, each, within
from vnait_lab.studies.figures import Bars, Dots, Lines, Panel, figure
from vnait_lab.studies.parts.training import Reader, Stack, descend
from vnait_lab.study import listed

__all__ = [
    "Bars",
    "Dots",
    "Figure",
    "Lines",
    "Panel",
    "Reader",
    "Stack",
    "above",
    "ahead",
    "at_most",
    "below",
    "clear",
    "decided",
    "descend",
    "each",
    "figure",
    "listed",
    "within",
]
