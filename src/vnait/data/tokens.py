"""Text to tokens to ids, by a fast tokenizer that is saved with the model and works without this package."""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from vnait.data.pairs import TOKEN, are_pairs, check_sides, cut, joined, sides_of
from vnait.data.sentences import Piece, pieces, split_words
from vnait.data.text import VERSION, check_whole, normalized, normalizer
from vnait.shared.errors import InputError, extra

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger("vnait")

SPECIAL = ("[PAD]", "[UNK]", "[MASK]")
MANY_UNKNOWN = 0.2
NO_LIMIT = 10**9  # a `max_length` that cuts no text
# Tokenized together, at most, since the tokenizer needs some 100 bytes a token.
_PART, _CHARACTERS = 4096, 2**19

_GAPS = r"\s+"
# With its marks. An emoji is one token with its skin tone, and so are a flag, a family and a keycap.
# To Unicode, ℹ is a letter.
_SYMBOL = r"(?=[\p{P}\p{S}\p{Extended_Pictographic}])\X|[0-9]\u20e3"
# Scripts written without spaces. The two long-vowel marks belong to no script of their own in Unicode.
_SCRIPTS = r"\p{Han}\p{Hiragana}\p{Katakana}\u30fc\uff70\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_UNSPACED = rf"[{_SCRIPTS}]\p{{M}}*"
_CLOSING, _OPENING, _WIDE = r",.;:!?%)\]}", r"(\[{", "，。！？；：、（）【】《》「」『』"
# Single-character tokens, by tokenization; what remains between these and the gaps is one token.
_ALONE = {
    "words": f"{_UNSPACED}|{_SYMBOL}",
    "characters": rf"{_SYMBOL}|.[\p{{M}}\u200c\u200d]*",
    "jieba": _SYMBOL,
}
TOKENIZATIONS = tuple(_ALONE)

_SPACE = re.compile(r"[ \t\r\n]")

# jieba gets only stretches with a Chinese character: it cuts any other script but Latin into single letters.
# The adjacent letters belong to them, since its dictionary has words such as T恤.
_CHINESE = re.compile(r"[a-zA-Z0-9+#&._%-]*[\u4e00-\u9fd5][\u4e00-\u9fd5a-zA-Z0-9+#&._%-]*")


def tokenizer(vocabulary: Sequence[str], *, tokenization: str = "words") -> PreTrainedTokenizerFast:
    """A word-level fast tokenizer: `normalized` text to ids, [PAD] 0, [UNK] 1, [MASK] 2, then the words.

    vocabulary    distinct words, in the order of their ids; with "[SEP]" among them it reads pairs of texts
    tokenization  "words": split at white space; punctuation, symbols, and the characters of scripts written
                  without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) are tokens of their own, each
                  with its combining marks
                  "characters": every character, as for DNA; white space is dropped
                  "jieba": Chinese words, found by jieba (an extra) before the tokenizer sees them

    The tokenization is saved with the tokenizer, and `encode` reads it there. "[PAD]" and the like in a text
    are ordinary text, unless the tokenizer is called with split_special_tokens=False. InputError if the
    tokenization is not known or a word repeats.

    >>> made = tokenizer(["paris", "!", "我", "爱"])
    >>> made.convert_ids_to_tokens(range(5)), encode(made, ["Paris爱谁"], max_length=9)
    (['[PAD]', '[UNK]', '[MASK]', 'paris', '!'], [[3, 6, 1]])
    """
    from tokenizers import Tokenizer, models, processors
    from transformers import PreTrainedTokenizerFast

    # A repeated word would shift every id after it against the rows of its vector table.
    counts = Counter([*SPECIAL, *vocabulary])
    if repeated := [word for word, count in counts.items() if count > 1]:
        shown = ", ".join(map(repr, repeated[:3]))
        raise InputError(f"the vocabulary repeats {shown}; words must differ, also from {SPECIAL}.")
    ids = {word: index for index, word in enumerate(counts)}
    backend = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = _steps(tokenization)
    backend.decoder = _spacing(tokenization)
    pairs = {}
    if TOKEN in ids:  # then transformers' pipelines put it between two texts, too
        between = [(TOKEN, ids[TOKEN])]
        template = processors.TemplateProcessing(single="$A", pair=f"$A {TOKEN} $B", special_tokens=between)
        backend.post_processor, pairs = template, {"sep_token": TOKEN}
    return PreTrainedTokenizerFast(
        **pairs,
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        padding_side="right",
        tokenization=tokenization,
        normalization=VERSION,
    )


def words(texts: Iterable[str], tokenization: str) -> list[list[str]]:
    """The tokens of each text as strings, before any vocabulary; Word2Vec and TF-IDF count these.

    The tokenizer's own normalizer and pre-tokenizer make them, so `encode` looks up the same tokens.

    >>> words(["Don't! 我爱", "CAG"], "words"), words(["CAG"], "characters")
    ([['don', "'", 't', '!', '我', '爱'], ['cag']], [['c', 'a', 'g']])
    """
    _, pre_tokenizer = _steps(tokenization)
    known: dict[str, str] = {}  # one string a word, however often it occurs
    texts = list(texts)
    sides = iter(
        [known.setdefault(word, word) for word, _ in pre_tokenizer.pre_tokenize_str(normalized(side))]
        for side in _segmented(chain.from_iterable(map(sides_of, texts)), tokenization)
    )
    return [joined([next(sides) for _ in sides_of(text)], TOKEN) for text in texts]


def spans(text: str, tokenization: str) -> list[tuple[int, int]]:
    """Where each token of `words` starts and ends in the text.

    >>> spans("Don't", "words")
    [(0, 3), (3, 4), (4, 5)]
    """
    from tokenizers import Regex, pre_tokenizers

    steps, pre_tokenizer = _steps(tokenization)
    if tokenization != "jieba":
        return [place for _, place in _places(text, steps, pre_tokenizer)]
    # jieba reads a normalized text, and its words have more spaces between them than that.
    (segmented,) = _segmented([text], tokenization)
    each = pre_tokenizers.Split(Regex("."), "isolated")
    letters = [
        place for letter, place in _places(text, normalizer(lower=False), each) if not letter.isspace()
    ]
    numbers = list(accumulate((not letter.isspace() for letter in segmented), initial=0))
    return [
        (letters[numbers[start]][0], letters[numbers[end] - 1][1])
        for _, (start, end) in _places(segmented, steps, pre_tokenizer)
    ]


def _places(text: str, steps: Any, pre_tokenizer: Any) -> list[tuple[str, tuple[int, int]]]:
    """The tokens of a text, and where each starts and ends in it."""
    from tokenizers import PreTokenizedString

    pieces = PreTokenizedString(text)
    pieces.normalize(steps.normalize)
    pre_tokenizer.pre_tokenize(pieces)
    splits = pieces.get_splits(offset_referential="original", offset_type="char")
    return [(token, place) for token, place, _ in splits]


@dataclass
class TextCounts:
    """What texts lose as they become at most `max_length` ids, in one call of `encode` or in several."""

    max_length: int
    texts: int = 0
    cut: int = 0
    longest: int = 0
    tokens: int = 0
    unknown: int = 0

    def add(self, ids: Sequence[list[int]], unknown: int) -> None:
        """Count texts that are not cut yet; `unknown` is the id of [UNK]."""
        lengths = [len(row) for row in ids]
        self.texts += len(ids)
        self.cut += sum(length > self.max_length for length in lengths)
        self.longest = max([self.longest, *lengths])
        self.tokens += sum(lengths)
        self.unknown += sum(row.count(unknown) for row in ids)

    def report(self) -> None:
        """Log how many texts were cut, and a share of unknown words above 20 %."""
        self.report_cut()
        if (share := self.unknown / max(self.tokens, 1)) > MANY_UNKNOWN:
            logger.warning(
                "%.0f %% of the tokens are unknown words; use vectors or training texts closer to this data.",
                100 * share,
            )

    def report_cut(self) -> None:
        """Log how many texts were cut."""
        if self.cut:
            logger.warning(
                "%d of %d texts were cut to %d tokens; the longest has %d.",
                *(self.cut, self.texts, self.max_length, self.longest),
            )


def encode(
    tokenizer: PreTrainedTokenizerFast,
    texts: Iterable[str],
    *,
    max_length: int,
    tally: TextCounts | None = None,
) -> list[list[int]]:
    """The ids of each text, at least one and at most `max_length`; the number of texts cut is logged, or left
    to a `tally` of several calls.

    A text without a token becomes [UNK], so that every row has a token to attend to. The ids of a `Pair` have
    [SEP] between its two texts, of which the longer one is cut first.

    >>> encode(tokenizer(["one", "two", "three"]), ["three two one", " "], max_length=2)
    [[5, 4], [1]]
    """
    if max_length < 1:
        raise InputError(f"max_length is {max_length}; expected at least 1 token.")
    lost = TextCounts(max_length) if tally is None else tally
    ids: list[list[int]] = []
    for part in parts(texts):
        if tokenizer.sep_token is None:
            check_sides(part, pairs=False)
        sides = chain.from_iterable(map(sides_of, part))
        segmented = _segmented(sides, tokenizer.init_kwargs.get("tokenization"))
        rows = _ids(tokenizer, segmented) if len(part) == 1 else _together(tokenizer, segmented)
        each = iter(row or [tokenizer.unk_token_id] for row in rows)
        whole = [joined([next(each) for _ in sides_of(text)], tokenizer.sep_token_id) for text in part]
        lost.add(whole, tokenizer.unk_token_id)
        ids += [cut(row, max_length, tokenizer.sep_token_id if are_pairs(part) else None) for row in whole]
    if tally is None:
        lost.report_cut()
    return ids


def parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts in lists of at most 4,096 texts and 2^19 characters; a longer text is alone."""
    part: list[str] = []
    characters = 0
    for text in texts:
        characters += len(text)
        if part and (len(part) == _PART or characters > _CHARACTERS):
            yield part
            part, characters = [], len(text)
        part.append(text)
    if part:
        yield part


def _together(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> list[list[int]]:
    """The ids of each text as it is."""
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _ids(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Iterator[list[int]]:
    """The ids of each text. A long one is tokenized in stretches up to a gap, at which no token depends on
    what is beyond.
    """
    for text in texts:
        ids: list[int] = []
        for stretch in _stretches(text):
            ids += _together(tokenizer, [stretch])[0]
        yield ids


def _stretches(text: str) -> Iterator[str]:
    """A text in stretches of some 2^19 characters that end at white space.

    >>> list(_stretches("a b"))
    ['a b']
    """
    start = 0
    while start < len(text):
        gap = _SPACE.search(text, start + _CHARACTERS)
        end = len(text) if gap is None else gap.start()
        yield text[start:end]
        start = end


def encode_words(
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    *,
    max_length: int,
    tally: TextCounts | None = None,
) -> list[list[Piece]]:
    """Sentences with a space between two words in pieces of at most `max_length` ids; no word is left out.

    >>> encode_words(tokenizer(["don", "t", "stop"]), ["Don't stop"], max_length=9)
    [[Piece(ids=[3, 1, 4, 5], starts=[0, 3])]]
    """
    words = [split_words(text) for text in texts]
    each = iter(encode(tokenizer, chain.from_iterable(words), max_length=NO_LIMIT, tally=tally))
    return [pieces([next(each) for _ in row], max_length) for row in words]


def unknown_share(tokenizer: PreTrainedTokenizerFast, ids: Iterable[Sequence[int]]) -> float:
    """The share of tokens that are [UNK], in [0, 1]; 0 if there are no tokens.

    >>> made = tokenizer(["one", "two"])
    >>> unknown_share(made, encode(made, ["one three", "two four"], max_length=9))
    0.5
    """
    counts = Counter(chain.from_iterable(ids))
    return counts[tokenizer.unk_token_id] / max(counts.total(), 1)


def _steps(tokenization: str) -> tuple[Any, Any]:
    """The normalizer and the pre-tokenizer, which alone define a token."""
    from tokenizers import Regex, pre_tokenizers

    if tokenization not in _ALONE:
        raise InputError(f"tokenization is {tokenization!r}; expected one of {', '.join(TOKENIZATIONS)}.")
    gaps = pre_tokenizers.Split(Regex(_GAPS), "removed")
    alone = pre_tokenizers.Split(Regex(_ALONE[tokenization]), "isolated")
    return normalizer(), pre_tokenizers.Sequence([gaps, alone])


def _spacing(tokenization: str) -> Any:
    """Tokens to text: a space before each word; none in scripts without spaces, nor before a comma.

    Also before the first one: pipelines put what was written after the prompt, as it is. The text has the
    same tokens again (jieba may cut Chinese otherwise).
    """
    from tokenizers import Regex, decoders

    if tokenization == "characters":
        return decoders.Fuse()
    script = r"\p{Han}" if tokenization == "jieba" else _SCRIPTS  # of which it makes tokens without spaces
    without = [
        rf" (?=[{_CLOSING}{_WIDE}])",
        rf"(?<=[{_OPENING}{_WIDE}]) ",
        rf"(?<=[{script}\p{{M}}]) (?=[{script}])",
        rf"\A (?=[{script}])",
        r"(?<=\p{L}) (?=['’] \p{L})",
        r"(?<=\p{L}['’]) (?=\p{L})",
    ]
    return decoders.Sequence(
        [
            decoders.WordPiece(prefix="##", cleanup=False),  # a space before each token but the first
            decoders.Fuse(),
            decoders.Replace(Regex(r"\A"), " "),
            *(decoders.Replace(Regex(space), "") for space in without),
        ]
    )


def _segmented(texts: Iterable[str], tokenization: str | None) -> Iterable[str]:
    texts = list(texts)
    for text in texts:
        check_whole(text)
    if tokenization != "jieba":
        return texts
    jieba = _jieba()
    texts = (normalized(text, lower=False) for text in texts)  # its dictionary has words with capitals
    return [_CHINESE.sub(lambda match: f" {' '.join(jieba.lcut(match[0]))} ", text) for text in texts]


def _jieba() -> Any:
    with extra("chinese"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its source has escapes that newer Pythons warn about
        import jieba
    jieba.setLogLevel(logging.WARNING)
    return jieba
