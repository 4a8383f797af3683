"""Pretrained models with another positional method: `attach`, `detach`, `audit`, and adapters that hold what was attached alone."""

from vnait.attached.adapters import load_adapter, save_adapter, save_base
from vnait.attached.attaching import Attachment, attach, detach
from vnait.attached.auditing import Audit, Source, audit
from vnait.attached.finding import FAMILIES, Family

__all__ = [
    "FAMILIES",
    "Attachment",
    "Audit",
    "Family",
    "Source",
    "attach",
    "audit",
    "detach",
    "load_adapter",
    "save_adapter",
    "save_base",
]
