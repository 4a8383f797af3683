"""Keys: fingerprints of settings and data."""

import hashlib
import json
from typing import Any


def plain(value: Any) -> Any:
    """A setting for JSON: numpy's scalars, as from a grid search, as numbers; anything else as a string."""
    return value.item() if hasattr(value, "item") else str(value)


def key_of(*parts: object) -> str:
    """A fingerprint of settings and data, 16 hexadecimal digits.

    >>> key_of({"method": "vnait"}, 0) == key_of({"method": "vnait"}, 0) != key_of({"method": "none"}, 0)
    True
    """
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
