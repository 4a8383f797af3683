"""Other positional methods in pretrained models: `attach`, `detach`, `audit`, adapters; and texts past their
limit: `lengthen`, `shorten`.
"""

from vnait.pretrained.adapters import load_adapter
from vnait.pretrained.attaching import Attachment, attach, detach
from vnait.pretrained.auditing import Audit, Source, audit
from vnait.pretrained.lengthening import lengthen, shorten
from vnait.pretrained.locate import FAMILIES, Family
from vnait.pretrained.saving import save_adapter, save_base

__all__ = [
    "FAMILIES",
    "Attachment",
    "Audit",
    "Family",
    "Source",
    "attach",
    "audit",
    "detach",
    "lengthen",
    "load_adapter",
    "save_adapter",
    "save_base",
    "shorten",
]
