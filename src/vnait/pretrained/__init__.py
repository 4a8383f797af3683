"""Other positional methods in pretrained models: `attach`, `detach`, `audit`, adapters; and texts past their
limit: `lengthen`, `shorten`.
"""

from vnait.pretrained.attach.adapters import load_adapter
from vnait.pretrained.attach.attaching import Attachment, attach, detach
from vnait.pretrained.attach.auditing import Audit, Source, audit
from vnait.pretrained.attach.saving import save_adapter, save_base
from vnait.pretrained.extend.lengthening import lengthen, shorten
from vnait.pretrained.locate import FAMILIES, Family

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
