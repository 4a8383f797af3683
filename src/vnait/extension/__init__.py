"""`vnait extend`: ways to read texts past an embedder's limit, measured beside those that cost nothing."""

from vnait.extension.arms import ARMS
from vnait.extension.report import Report
from vnait.extension.running import extend

__all__ = ["ARMS", "Report", "extend"]
