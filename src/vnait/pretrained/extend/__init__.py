"""`vnait extend`: ways to read texts past an embedder's limit, measured beside those that cost nothing."""

from vnait.pretrained.extend.report import Report
from vnait.pretrained.extend.running import extend
from vnait.pretrained.extend.variants import ARMS

__all__ = ["ARMS", "Report", "extend"]
