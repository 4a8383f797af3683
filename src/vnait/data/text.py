"""One normalization of text, for texts in training and prediction, words of vectors, and labels.

Its steps are those of the tokenizers library and are saved in a model's tokenizer.json, so that a folder
gives the same words everywhere. docs/text.md shows what they do.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

from vnait.shared.errors import InputError, has_surrogate

VERSION = 1  # of the steps; it is saved with the tokenizer

# White space, the zero-width space, the byte-order mark and ASCII's separators of records.
_GAP = r"[[\s\u200b\ufeff\x1c-\x1f]&&[^ ]]"
_NO_WIDTH = dict.fromkeys(map(ord, "\u200b\ufeff"))  # gaps between words of a text, but not to the eye
_FILLERS = "\u115f\u1160\u3164\uffa0"  # letters of Korean that nothing shows
_TAGS = r"\x{e0020}-\x{e007f}"  # after a black flag they name a region, such as Scotland
_INVISIBLE = rf"[[\p{{Cc}}\p{{Cf}}\p{{Default_Ignorable_Code_Point}}]&&[^\u200c\u200d{_TAGS}]]"
# Letters of these scripts change their form by a joiner between them, and words their meaning.
_JOINING = (
    r"\p{Arabic}\p{Syriac}\p{Nko}\p{Mongolian}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}"
    r"\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}"
)
_EMOJI = r"\p{Extended_Pictographic}"
# Each alternative begins with its character, since the search for it is ten times as fast.
_STRAY = "|".join(
    [
        rf"\u200c(?:(?![{_JOINING}])|(?<![{_JOINING}]\u200c))",
        rf"\u200d(?<![{_JOINING}{_EMOJI}\p{{Emoji_Modifier}}]\u200d)",
        # After a mark (a virama) it shapes the letter before it, also at the end of a word.
        rf"\u200d(?<=[{_JOINING}&&[^\p{{M}}]]\u200d)(?![{_JOINING}])",
        rf"\u200d(?<=[{_EMOJI}\p{{Emoji_Modifier}}]\u200d)(?!{_EMOJI})",
        rf"[{_TAGS}](?<![\x{{1f3f4}}{_TAGS}][{_TAGS}])[{_TAGS}]*",
    ]
)
# Several in a row look like the first alone.
_REPEATED = r"[\u200c\u200d](?<=[\u200c\u200d][\u200c\u200d])"
# Marks that NFC puts before a dot above: those below a letter, beside it and through it.
_BEFORE_DOT = r"\u0316-\u0319\u031b-\u033c\u0347-\u0349\u034d\u034e\u0353-\u0356\u0359\u035a"
# Of a small i, also one with other marks: the dot of \u0130, or of an I that has it as a mark.
_DOT = "|".join(rf"[iįịḭ][\u0307{_BEFORE_DOT}]{{{count}}}\u0307" for count in range(3))
_DOT = rf"\u0307(?<={_DOT})"
_FINAL_SIGMA = r"σ(?<=[\p{L}\p{M}]σ)(?!\p{M}*\p{L})"
_NOT_COMPOSED = "\U00011935\U00011930", "\U00011938"  # by NFC in tokenizers 0.23, of Unicode 14's letters
# The first letter that each version of Unicode added.
_ADDED = {"17.0": "\ua7ce", "16.0": "\u1c89", "15.1": "\u2ffc", "15.0": "\U0001e4d0", "14.0": "\u2c2f"}


def normalized(text: str, *, lower: bool = True) -> str:
    """The text as a model sees it, before it is cut into words; `lower=False` keeps its capitals.

    Composed letters (NFC), no invisible characters, one space for any white space, none at the ends. Lower
    case has the final sigma of Greek, and i for the dotted capital of Turkish.

    >>> normalized("Cafe\\u0301\\u00a0 du\\u00adll "), normalized("ΚΑΚΌΣ İyi"), normalized("A b", lower=False)
    ('café dull', 'κακός iyi', 'A b')
    """
    if text.isascii() and text.isprintable():  # as most are
        plain = text.lower() if lower else text
    else:
        check_whole(text)
        plain = _steps(lower).normalize_str(text)
    return " ".join(plain.split())


def check_whole(text: str) -> None:
    """Raise InputError for half a character in a text."""
    if has_surrogate(text):
        raise InputError(
            f"the text {text[:40]!r} contains a lone surrogate, which is not valid text; write it again "
            "from the original text."
        )


def folded(name: str) -> str:
    """What is left of a name or a label for comparison with others that look alike.

    >>> folded(" Go\u200bod "), folded("ＧＯＯＤ"), folded("STRASSE") == folded("straße")
    ('good', 'good', True)
    """
    seen = unicodedata.normalize("NFKC", name).translate(_NO_WIDTH)
    return normalized(seen).casefold()


def is_blank(text: str) -> bool:
    """Whether nothing of a text can be seen.

    >>> is_blank(" \u00a0\u200b\u3164"), is_blank("!")
    (True, False)
    """
    if any(letter.isalnum() and letter not in _FILLERS for letter in text):  # as of most texts the first
        return False
    return not normalized(text)


@cache
def _steps(lower: bool) -> Any:
    return normalizer(lower=lower)


def normalizer(*, lower: bool = True) -> Any:
    """The normalizer of the tokenizers library that `normalized` applies; it leaves runs of spaces."""
    from tokenizers import Regex
    from tokenizers.normalizers import NFC, Lowercase, Replace, Sequence

    # Invisible characters first: one between a letter and its accent would keep them apart.
    removed = [Replace(Regex(_GAP), " ")]
    removed += [Replace(Regex(pattern), "") for pattern in (_INVISIBLE, _REPEATED, _STRAY)]
    # Lowercase treats each letter alone: İ becomes i with a dot above, Σ never ς.
    small = [Lowercase(), Replace(Regex(_DOT), "")]
    composed = [NFC(), Replace(*_NOT_COMPOSED)]
    return Sequence([*removed, *small * lower, *composed, *[Replace(Regex(_FINAL_SIGMA), "ς")] * lower])


def unicode_version() -> str:
    """The version of Unicode by which the tokenizers library knows letters, marks and emoji.

    >>> float(unicode_version()) >= 14
    True
    """
    from tokenizers import Regex
    from tokenizers.normalizers import Replace

    unassigned = Replace(Regex(r"\p{Cn}"), "")
    return next((version for version, letter in _ADDED.items() if unassigned.normalize_str(letter)), "13.0")
