"""Text of others in what is printed and written: characters that steer a terminal, or turn a sentence around,
are shown by their codes.
"""

from __future__ import annotations

import json
import re
from typing import Any

# Controls but tab and newline, separators of lines, and marks that turn the direction of a text around.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def safe(words: object) -> str:
    """Words for a terminal: its control characters, which could move the cursor, as their codes.

    >>> safe("good " + chr(27) + "[2J")
    'good \\\\x1b[2J'
    """
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], str(words))


def json_text(document: Any, **options: Any) -> str:
    """JSON in UTF-8, of which these characters are escapes: what reads it gets them as they were.

    >>> json_text(["caf\\u00e9", chr(0x202e)]) == '["caf\\u00e9", "' + chr(92) + 'u202e"]'
    True
    """
    text = json.dumps(document, ensure_ascii=False, **options)
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
