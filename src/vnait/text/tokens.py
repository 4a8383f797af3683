"""Text to tokens to ids, by a fast tokenizer that is saved with the model and works without this package."""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vnait.errors import InputError
from vnait.text.tables import HALF

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

log = logging.getLogger("vnait")

SPECIAL = ("[PAD]", "[UNK]", "[MASK]")
MANY_UNKNOWN = 0.2

# Zero-width space and byte-order mark part words like a space, though Unicode doesn't count them as white.
_GAPS = r"[\s\u200b\ufeff]+"
_SYMBOL = r"[\p{P}\p{S}]\p{M}*"
# Scripts written without spaces. The two long-vowel marks belong to no script of their own in Unicode.
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\u30fc\uff70\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
# What stands alone as a token, by tokenization; whatever is left between these and the gaps is one token.
_ALONE = {"words": f"{_UNSPACED}|{_SYMBOL}", "characters": r".\p{M}*", "jieba": _SYMBOL}
TOKENIZATIONS = tuple(_ALONE)

# Only stretches with a Chinese character go to jieba, which cuts any other script but Latin into single letters.
# The neighbouring letters go with them: its dictionary has words such as T恤.
_CHINESE = re.compile(r"[a-zA-Z0-9+#&._%-]*[\u4e00-\u9fd5][\u4e00-\u9fd5a-zA-Z0-9+#&._%-]*")


def tokenizer(
    texts: Iterable[str],
    *,
    tokenization: str = "words",
    vocabulary: Sequence[str] | None = None,
    min_count: int = 1,
    padding_side: str = "right",
) -> PreTrainedTokenizerFast:
    """A word-level fast tokenizer: lower-cased NFC text to ids, [PAD] 0, [UNK] 1, [MASK] 2, then the words.

    tokenization  "words": parted at white space; punctuation, symbols, and the characters of scripts written without spaces
                  (Chinese, Japanese, Thai, Lao, Khmer, Burmese) stand alone, each with its combining marks
                  "characters": every character, as for DNA letters; white space is dropped
                  "jieba": Chinese words, found by jieba (an extra) before the tokenizer sees them
    vocabulary    the words in the order of their ids, as of a vector file; `texts` aren't counted then
    min_count     words of `texts` seen less often are unknown; the others are ordered by falling count, then alphabetically
    padding_side  "right" or "left"; transformers saves only the one that a tokenizer was made with

    The tokenization is saved with the tokenizer, and `encode` reads it there. "[PAD]" and its like in a text are text.
    InputError where an option is none of its choices or no word is left.

    >>> learned = tokenizer(["我爱 Paris!", "paris"])
    >>> learned.convert_ids_to_tokens(range(len(learned)))
    ['[PAD]', '[UNK]', '[MASK]', 'paris', '!', '我', '爱']
    >>> encode(learned, ["Paris爱谁"], max_length=9)
    [[3, 6, 1]]
    """
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    if padding_side not in ("left", "right"):
        raise InputError(f"padding_side is {padding_side!r}; expected 'left' or 'right'.")
    known = _counted(words(texts, tokenization), min_count) if vocabulary is None else _given(vocabulary, min_count)
    ids = {word: index for index, word in enumerate([*SPECIAL, *known])}
    backend = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = _steps(tokenization)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        padding_side=padding_side,
        tokenization=tokenization,
    )


def words(texts: Iterable[str], tokenization: str) -> list[list[str]]:
    """The tokens of each text as strings, before any vocabulary: what Word2Vec and TF-IDF count.

    They come from the tokenizer's own normalizer and pre-tokenizer, so they are the tokens that `encode` looks up.

    >>> words(["Don't! 我爱", "CAG"], "words"), words(["CAG"], "characters")
    ([['don', "'", 't', '!', '我', '爱'], ['cag']], [['c', 'a', 'g']])
    """
    normalizer, pre_tokenizer = _steps(tokenization)
    segmented = _segmented(texts, tokenization)
    return [[word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))] for text in segmented]


def encode(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str], *, max_length: int) -> list[list[int]]:
    """The ids of each text, at least one and at most `max_length`; how many texts were cut is logged.

    A text without a token becomes [UNK], so that every row has something to attend to.

    >>> learned = tokenizer(["one two three"])
    >>> encode(learned, ["three two one", " "], max_length=2)
    [[4, 5], [1]]
    """
    if max_length < 1:
        raise InputError(f"max_length is {max_length}; expected at least 1 token.")
    segmented = list(_segmented(texts, tokenizer.init_kwargs.get("tokenization")))
    if not segmented:  # transformers fails on an empty list
        return []
    whole: list[list[int]] = tokenizer(segmented, add_special_tokens=False, verbose=False)["input_ids"]
    cut = sum(len(ids) > max_length for ids in whole)
    if cut:
        longest = max(map(len, whole))
        log.warning("%d of %d texts were cut to %d tokens; the longest has %d.", cut, len(whole), max_length, longest)
    return [ids[:max_length] or [tokenizer.unk_token_id] for ids in whole]


def unknown_share(tokenizer: PreTrainedTokenizerFast, ids: Iterable[Sequence[int]]) -> float:
    """The share of tokens that are [UNK], in [0, 1]; 0 where there are no tokens.

    >>> learned = tokenizer(["one two"])
    >>> unknown_share(learned, encode(learned, ["one three", "two four"], max_length=9))
    0.5
    """
    counts: Counter[int] = Counter()
    for row in ids:
        counts.update(row)
    return counts[tokenizer.unk_token_id] / max(counts.total(), 1)


def report_unknown(tokenizer: PreTrainedTokenizerFast, ids: Iterable[Sequence[int]]) -> float:
    """`unknown_share`, with a warning in the log past 20 %.

    >>> learned = tokenizer(["one two"])
    >>> report_unknown(learned, [[3, 4]])
    0.0
    """
    share = unknown_share(tokenizer, ids)
    if share > MANY_UNKNOWN:
        log.warning(
            "%.0f %% of the tokens are unknown words; use vectors or training texts closer to this data.", 100 * share
        )
    return share


def _steps(tokenization: str) -> tuple[Any, Any]:
    """The normalizer and the pre-tokenizer: the one place that says what a token is."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    if tokenization not in _ALONE:
        raise InputError(f"tokenization is {tokenization!r}; expected one of {', '.join(TOKENIZATIONS)}.")
    parted = pre_tokenizers.Split(Regex(_GAPS), "removed")
    alone = pre_tokenizers.Split(Regex(_ALONE[tokenization]), "isolated")
    normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    return normalizer, pre_tokenizers.Sequence([parted, alone])


def _segmented(texts: Iterable[str], tokenization: str | None) -> Iterable[str]:
    texts = list(texts)
    if halved := next((text for text in texts if HALF.search(text)), None):
        raise InputError(
            f"the text {halved[:40]!r} holds half a character (a lone surrogate); write it again from the original text."
        )
    if tokenization != "jieba":
        return texts
    jieba = _jieba()
    return [_CHINESE.sub(lambda found: f" {' '.join(jieba.lcut(found[0]))} ", text) for text in texts]


def _jieba() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its source has escapes that newer Pythons warn about
            import jieba
    except ImportError as error:
        raise InputError("tokenization 'jieba' needs jieba; run: pip install vnait[chinese]") from error
    jieba.setLogLevel(logging.WARNING)
    return jieba


def _counted(tokens: Iterable[list[str]], min_count: int) -> list[str]:
    if min_count < 1:
        raise InputError(f"min_count is {min_count}; expected at least 1.")
    counts: Counter[str] = Counter()
    for row in tokens:
        counts.update(row)
    known = sorted(
        (word for word, count in counts.items() if count >= min_count), key=lambda word: (-counts[word], word)
    )
    if not known:
        raise InputError(
            f"no word occurs {min_count} times or more in the texts; give more texts or a lower min_count."
        )
    return known


def _given(vocabulary: Sequence[str], min_count: int) -> Sequence[str]:
    if min_count != 1:
        raise InputError(f"min_count={min_count} has nothing to count in a given vocabulary; leave one of them out.")
    # A repeated word would shift every id after it against the rows of its vector table.
    counts = Counter([*SPECIAL, *vocabulary])
    repeated = [word for word, count in counts.items() if count > 1]
    if repeated:
        raise InputError(
            f"the vocabulary repeats {', '.join(map(repr, repeated[:3]))}; words must differ, also from {SPECIAL}."
        )
    return vocabulary
