"""The encoding that bytes which are not UTF-8 are likely in."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable

_READ = 1 << 20  # bytes that decide
_SURE = 0.8  # share of letters that are ordinary ones of the language
_KANA = 0.15  # share of a Japanese text, at least
_RUN = 1.5  # bytes above ASCII in a row; fewer are accents in a Latin script
_HIGH = re.compile(rb"[\x80-\xff]+")


def likely(raw: bytes) -> tuple[str, str] | None:
    """An encoding and the language or system that uses it; None if no guess is good.

    >>> likely("映画はとても面白かった".encode("shift_jis")), likely("un café".encode("cp1252"))
    (('shift_jis', 'Japanese'), ('cp1252', 'Western European'))
    """
    raw = raw[:_READ]
    if b"\0" in raw:
        name = without_mark(raw)
        return name, f"{name[:6].upper()} without a byte-order mark"
    runs = _HIGH.findall(raw)
    if runs and sum(map(len, runs)) >= _RUN * len(runs):
        scores = {name: _score(raw, name, ordinary) for name, (_, ordinary) in _LANGUAGES.items()}
        best = max(scores, key=scores.__getitem__)
        if scores[best] >= _SURE:
            return best, _LANGUAGES[best][0]
    return None if _decoded(raw, "cp1252") is None else ("cp1252", "Western European")


def mostly_utf8(raw: bytes) -> bool:
    """Whether most letters above ASCII are UTF-8, as in a file to which another was appended.

    >>> mostly_utf8("été à".encode() + b"caf\\xe9"), mostly_utf8("été".encode("cp1252"))
    (True, False)
    """
    text = raw[:_READ].decode("utf-8", "replace")
    whole = sum(letter > "\x7f" for letter in text)
    return whole > 2 * text.count("\ufffd")


def without_mark(raw: bytes) -> str:
    """UTF-16 or UTF-32 by its byte order: the two higher bytes of four, or the higher of two, are mostly 0.

    >>> without_mark("text".encode("utf-16-be")), without_mark("text".encode("utf-32-le"))
    ('utf-16-be', 'utf-32-le')
    """
    nuls = [raw[at::4].count(0) for at in range(4)]
    big, little = nuls[0] + nuls[1], nuls[2] + nuls[3]
    if max(big, little) > 0.4 * len(raw):  # of 0.5 at most
        return "utf-32-be" if big > little else "utf-32-le"
    return "utf-16-be" if nuls[0] + nuls[2] > nuls[1] + nuls[3] else "utf-16-le"


def _decoded(raw: bytes, encoding: str) -> str | None:
    """The text, of which the last letter may be cut; None if the bytes are not in that encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(raw, final=len(raw) < _READ)
    except UnicodeDecodeError:
        return None


def _score(raw: bytes, encoding: str, ordinary: Callable[[str], int]) -> float:
    """The share of ordinary letters among those above ASCII."""
    text = _decoded(raw, encoding) or ""
    letters = [letter for letter in text if letter > "\x7f" and unicodedata.category(letter)[0] != "P"]
    return min(ordinary(text) / max(len(letters), 1), 1)


def _in_words(pattern: str) -> Callable[[str], int]:
    words = re.compile(pattern)
    return lambda text: sum(map(len, words.findall(text)))


def _common(encoding: str, first: int, last: int) -> Callable[[str], int]:
    """Counts the letters in the part of a national standard that lists the common ones."""

    def common(letter: str) -> bool:
        code = letter.encode(encoding, "ignore")
        return len(code) == 2 and first <= code[0] <= last

    return lambda text: sum(map(common, text))


def _japanese(text: str) -> int:
    """Counts kana and the kanji of level 1, if enough of them are kana."""
    kana = sum("\u3041" <= letter <= "\u30ff" for letter in text)
    count = _common("euc_jp", 0xA4, 0xCF)(text)
    return count if kana >= _KANA * count else 0


_RUSSIAN = _in_words(r"\b[А-ЯЁ]?[а-яё]+\b")  # in the other encoding its capitals are small
# Of equal scores the first counts.
_LANGUAGES: dict[str, tuple[str, Callable[[str], int]]] = {
    "shift_jis": ("Japanese", _japanese),
    "euc_jp": ("Japanese", _japanese),
    "euc_kr": ("Korean", _in_words("[가-힣]+")),
    "gb18030": ("Chinese", _common("gb2312", 0xB0, 0xD7)),  # hanzi of level 1
    "big5": ("traditional Chinese", _common("big5", 0xA4, 0xC6)),
    "cp1255": ("Hebrew", _in_words("[א-ת]+")),  # its bytes are small letters in cp1251
    "cp1251": ("Russian", _RUSSIAN),
    "koi8_r": ("Russian", _RUSSIAN),
    "cp1256": ("Arabic", _in_words("[ء-ي]+")),  # its bytes are letters in cp1253
    "cp1253": ("Greek", _in_words("[Ά-ώ]+")),
    "cp874": ("Thai", _in_words("[ก-๛]+")),
}
