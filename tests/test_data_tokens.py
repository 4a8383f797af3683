"""Tokenization: what a token is in every script, ids, and the tokenizer as a file."""

import json
import logging
import re
import sys
import unicodedata
from itertools import chain
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    pipeline,
)

from vnait.data import TOKENIZATIONS, TextCounts, encode, tokenizer, unknown_share, words
from vnait.data.pairs import Pair
from vnait.data.text import normalized, unicode_version
from vnait.data.tokens import parts, spans
from vnait.shared.errors import InputError

TEXTS = [
    "我爱北京天安门。",
    "東京タワー",
    "ภาษาไทย ที่นี่",
    "👍🏽 ok",
    "السَّلام عليكم",
    "Cafe\u0301 NAÏVE don't",
    "[PAD] [UNK] x",
]


def tokens(text: str, tokenization: str = "words") -> list[str]:
    return words([text], tokenization)[0]


def learned(texts: list[str], tokenization: str = "words"):
    found = dict.fromkeys(chain.from_iterable(words(texts, tokenization)))
    return tokenizer(list(found), tokenization=tokenization)


# What a token is


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", ["hello", ",", "world", "!"]),
        ("don't snake_case 3.14 $5", ["don", "'", "t", "snake", "_", "case", "3", ".", "14", "$", "5"]),
        ("我爱北京2008，OK", ["我", "爱", "北", "京", "2008", "，", "ok"]),
        ("東京タワーは、ｶｰ", ["東", "京", "タ", "ワ", "ー", "は", "、", "ｶ", "ｰ"]),
        ("カ\u3099 か\u3099", ["ガ", "が"]),  # composed by NFC
        ("か\u309aき", ["か\u309a", "き"]),  # nothing to compose: the mark stays with its letter
        ("𠮷野家", ["𠮷", "野", "家"]),  # beyond the basic plane
        ("ที่นี่", ["ที่", "นี่"]),
        ("ພາສາ", ["ພ", "າ", "ສ", "າ"]),
        ("កម្ពុជា", ["ក", "ម្", "ពុ", "ជា"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("السَّلام عليكم،", ["السَّلام", "عليكم", "،"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("가나 다", ["가나", "다"]),
        ("ПРИВЕТ ΣΑΣ", ["привет", "σας"]),
        ("Cafe\u0301 CAFÉ", ["café", "café"]),
        ("👍🏽ok❤️", ["👍🏽", "ok", "❤"]),
        ("a\u00a0b\u3000c\u2028d\u200be\ufefff\r\n\tg", list("abcdefg")),
        ("[MASK] </s>", ["[", "mask", "]", "<", "/", "s", ">"]),
        (" \n", []),
        ("", []),
    ],
)
def test_words_of_every_script(text, expected):
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ACGT nA\n", list("acgtna")),
        ("我 a", ["我", "a"]),
        ("cafe\u0301", list("café")),
        ("x\u0323y", ["x\u0323", "y"]),
        ("a.", ["a", "."]),
    ],
)
def test_characters(text, expected):
    assert tokens(text, "characters") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我爱北京天安门。", ["我", "爱", "北京", "天安门", "。"]),
        ("我买了T恤，OK", ["我", "买", "了", "t恤", "，", "ok"]),
        ("привет café 世界", ["привет", "café", "世界"]),
        ("cafe\u0301世界", ["café", "世界"]),
        ("北\u00ad京的T\u200d恤", ["北京", "的", "t恤"]),
    ],
)
def test_jieba_finds_chinese_words_and_leaves_other_scripts_whole(text, expected):
    assert tokens(text, "jieba") == expected


@pytest.mark.parametrize("tokenization", TOKENIZATIONS)
def test_spans_are_those_of_the_words_in_the_text_as_written(tokenization):
    written = " 我不喜\u2060欢  T恤, İstanbul\u200b Cafés du\xadll 👨\u200d👩 ΚΑΛΆ!"
    cut = [normalized(written[start:end]) for start, end in spans(written, tokenization)]
    assert cut == words([written], tokenization)[0]


def test_jieba_is_quiet(capfd):
    sys.modules.pop("jieba", None)  # a first import announces that it builds its dictionary
    tokens("北京", "jieba")
    assert capfd.readouterr() == ("", "")


def test_the_error_of_a_missing_jieba_has_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(InputError, match=r"needs jieba, which is missing: pip install 'vnait\[chinese\]'"):
        words(["北京"], "jieba")
    with pytest.raises(InputError, match="needs jieba"):
        encode(tokenizer(["北京"], tokenization="jieba"), ["北京"], max_length=9)


@pytest.mark.parametrize("call", [lambda: words(["a"], "bpe"), lambda: tokenizer(["a"], tokenization="bpe")])
def test_an_unknown_tokenization_lists_the_three(call):
    with pytest.raises(InputError, match="tokenization is 'bpe'; expected one of words, characters, jieba"):
        call()


# What a text is before it is cut

SHY, LRM, RLM, ALM, WORD_JOINER, LRE, FSI = 0xAD, 0x200E, 0x200F, 0x61C, 0x2060, 0x202A, 0x2068
VARIATIONS = 0xFE00, 0xFE0F, 0xE0101
OTHERS = 0x34F, 0x180E, 0x3164, 0x2064, 0xFFF9, 0xE0067, 0x200C, 0x200D, 0, 7, 0x9F
MARKS = [*map(chr, (SHY, LRM, RLM, ALM, WORD_JOINER, LRE, FSI, *VARIATIONS, *OTHERS))]


@pytest.mark.parametrize("mark", MARKS, ids=ascii)
@pytest.mark.parametrize("tokenization", TOKENIZATIONS)
def test_invisible_characters_change_no_word(mark, tokenization):
    plain = tokens("a dull film", tokenization)
    for seen in (
        f"a {mark}dull film",
        f"a du{mark}ll film",
        f"a dull{mark}{mark} film",
        f"{mark}a dull film",
    ):
        assert tokens(seen, tokenization) == plain
    assert tokens(f"e{mark}\u0301", tokenization) == ["é"]


@pytest.mark.parametrize(
    "gap",
    ["\u00a0", "\u202f", "\u2007", "\u3000", "\u200b", "\ufeff", "\x1c", "\x1f", "\x85", "\v"],
    ids=ascii,
)
def test_every_space_is_a_space(gap):
    assert tokens(f"a{gap}dull{gap}{gap}film{gap}") == ["a", "dull", "film"]
    assert normalized(f"a{gap}dull{gap}{gap}film{gap}") == "a dull film"


@pytest.mark.parametrize(
    ("written", "small"),
    [
        ("ΚΑΚΌΣ", "κακός"),
        ("ΟΔΥΣΣΕΎΣ", "οδυσσεύς"),
        ("κακόσ", "κακός"),  # as other software writes it
        ("ΣΟΦΌΣ2", "σοφός2"),
        ("ΣΟΦΟΣ\u0301", "σοφος\u0301"),  # with an accent that composes with no sigma
        ("ΟΔΟΣ\u0301Α", "οδοσ\u0301α"),
        ("Σ", "σ"),  # a letter alone, as of a sum
        ("İYİ", "iyi"),
        ("I\u0307stanbul", "istanbul"),
        ("İstanbul".lower(), "istanbul"),
        ("I\u0323\u0307", "ị"),  # İ with a dot below, which comes first where letters are decomposed
        ("İ\u0327", "i\u0327"),
        ("\u1eca\u0307z", "ịz"),
        ("i\u0307\u0301", "í"),  # as Lithuanian is written
        ("ISPARTA", "isparta"),
        ("ışık", "ışık"),  # dotless: I is i in every other language
        ("STRAẞE", "straße"),
        ("\u212aelvin", "kelvin"),
        ("ǅ", "ǆ"),
    ],
)
def test_capitals_of_every_language(written, small):
    assert tokens(written) == [small] == tokens(small)


@pytest.mark.parametrize(
    ("emoji", "same"),
    [
        ("👍🏽", None),
        ("👨\u200d👩\u200d👧\u200d👦", None),
        ("👩🏽\u200d🚀", None),
        ("🇩🇪", None),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", None),
        ("❤\ufe0f", "❤"),
        ("ℹ\ufe0f", "ℹ"),  # a letter to Unicode, and an emoji
        ("1\ufe0f\u20e3", "1\u20e3"),
        ("#\ufe0f\u20e3", "#\u20e3"),
        ("🏳\ufe0f\u200d🌈", "🏳\u200d🌈"),
    ],
)
@pytest.mark.parametrize("tokenization", TOKENIZATIONS)
def test_an_emoji_is_one_word_however_it_is_put_together(emoji, same, tokenization):
    word = same or emoji
    expected = [*tokens("ok", tokenization), word, word, "!", *tokens("so", tokenization)]
    assert (
        tokens(f"ok{emoji}{emoji}!so", tokenization) == expected == tokens(f"ok{word}{word}!so", tokenization)
    )


def test_all_composed_letters_are_those_of_unicode():
    for letter in map(chr, chain(range(0xD800), range(0xE000, sys.maxunicode + 1))):
        decomposed = unicodedata.normalize("NFD", letter)
        if decomposed != letter and unicodedata.normalize("NFC", letter) == letter:
            assert normalized(decomposed, lower=False) == letter == normalized(letter, lower=False)


def test_two_flags_and_a_mark_between_words_stay_apart():
    assert tokens("🇩🇪🇫🇷 👍\u200d ok a\u200d👩") == ["🇩🇪", "🇫🇷", "👍", "ok", "a", "👩"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("می\u200cخواهم", ["می\u200cخواهم"]),  # two words of one another without it
        ("می\u200c خواهم", ["می", "خواهم"]),
        ("अवन\u094d\u200d", ["अवन\u094d\u200d"]),  # after a virama, also at the end
        ("क\u094d\u200dष", ["क\u094d\u200dष"]),
        ("क\u200d", ["क"]),
        ("film\u200cخواهم", ["filmخواهم"]),
        ("می\u200c\u200cخواهم", ["می\u200cخواهم"]),  # typed twice
        ("می\u200c\xad\u200d\u200cخواهم", ["می\u200cخواهم"]),
        ("👩\u200d\u200d👧", ["👩\u200d👧"]),
        ("ខ\u200cក", ["ខ", "ក"]),
    ],
)
def test_joiners_stay_where_a_script_needs_them(written, expected):
    assert tokens(written) == expected


@settings(max_examples=200, deadline=None)
@given(
    st.text(
        st.characters(codec="utf-8") | st.sampled_from("\u200c\u200dΣİ\u0307\ufe0f👩🏽क\u094d \xad"),
        max_size=12,
    )
)
def test_a_normalized_text_stays_as_it_is(text):
    for lower in (True, False):
        once = normalized(text, lower=lower)
        assert normalized(once, lower=lower) == once
    assert tokens(normalized(text, lower=False)) == tokens(normalized(text)) == tokens(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_only_in_small_letters(text):
    assert normalized(text) == " ".join(text.lower().split())
    assert tokenizer([])._tokenizer.normalizer.normalize_str(text) == text.lower()


TABLE = [
    row.split("`")[1:4:2]
    for row in Path(__file__)
    .parent.with_name("docs")
    .joinpath("text.md")
    .read_text(encoding="utf-8")
    .splitlines()
    if row.startswith("| `")
]


@pytest.mark.parametrize(("written", "expected"), TABLE, ids=ascii)
def test_the_table_of_the_page(written, expected):
    plain = (re.sub(r"\\u(....)", lambda code: chr(int(code[1], 16)), cell) for cell in (written, expected))
    text, shown = plain
    assert tokens(text) == shown.split(" ")


def test_a_saved_tokenizer_names_its_normalization(tmp_path):
    tokenizer(["a"]).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["normalization"] == 1
    assert unicode_version().count(".") == 1


# The vocabulary


def vocabulary(made) -> list[str]:
    return made.convert_ids_to_tokens(range(len(made)))


def test_ids_follow_the_vocabulary():
    made = tokenizer(["z", "我", "a"])
    assert encode(made, ["A我Zq"], max_length=9) == [[5, 4, 1]]
    assert vocabulary(made) == ["[PAD]", "[UNK]", "[MASK]", "z", "我", "a"]
    assert (made.pad_token_id, made.unk_token_id, made.mask_token_id) == (0, 1, 2)


@pytest.mark.parametrize("given_words", [["a", "b", "a"], ["a", "[PAD]"]])
def test_a_vocabulary_that_repeats_a_word_is_refused(given_words):
    with pytest.raises(InputError, match=r"the vocabulary repeats '(a|\[PAD\])'; words must differ"):
        tokenizer(given_words)


# Tokens and ids are the same thing


@pytest.mark.parametrize("tokenization", TOKENIZATIONS)
def test_encode_looks_up_exactly_the_words(tokenization):
    made = learned(TEXTS, tokenization)
    ids = encode(made, TEXTS, max_length=99)
    assert [made.convert_ids_to_tokens(row) for row in ids] == words(TEXTS, tokenization)


PIECES = st.sampled_from(
    [
        "我",
        "门",
        "タ",
        "ー",
        "ที่",
        "a",
        "Z",
        "é",
        "e\u0301",
        "\u0301",
        "İ",
        "ẞ",
        "Σ",
        "👍🏽",
        "\u200d",
        " ",
        "\n",
        "[PAD]",
        ".",
    ]
)


@pytest.mark.parametrize("tokenization", ["words", "characters"])
@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.lists(PIECES | st.characters(codec="utf-8"), max_size=12).map("".join), min_size=1, max_size=3
    )
)
def test_words_and_ids_never_disagree(tokenization, texts):
    sentences = words(texts, tokenization)
    made = learned([*texts, "x"], tokenization)
    expected = [sentence or ["[UNK]"] for sentence in sentences]
    assert [made.convert_ids_to_tokens(row) for row in encode(made, texts, max_length=99)] == expected


def test_marks_of_the_tokenizer_written_in_a_text_are_text():
    made = learned(["[PAD] [MASK] [UNK]"])
    assert encode(made, ["[PAD]"], max_length=9) == [made.convert_tokens_to_ids(["[", "pad", "]"])]
    assert 1 not in encode(made, ["[UNK] [MASK]"], max_length=9)[0]


# The file


@pytest.mark.parametrize("tokenization", TOKENIZATIONS)
@pytest.mark.parametrize("loader", [AutoTokenizer, PreTrainedTokenizerFast])
def test_a_saved_tokenizer_comes_back_equal(tmp_path, tokenization, loader):
    made = learned(TEXTS, tokenization)
    made.save_pretrained(tmp_path)
    back = loader.from_pretrained(tmp_path)
    assert encode(back, TEXTS, max_length=99) == encode(made, TEXTS, max_length=99)
    assert back.get_vocab() == made.get_vocab()
    assert back.init_kwargs["tokenization"] == tokenization
    assert back.padding_side == "right"
    assert back.model_input_names == ["input_ids", "attention_mask"]
    assert back.clean_up_tokenization_spaces is False
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["tokenization"] == tokenization


@pytest.mark.parametrize("tokenization", ["words", "characters"])
def test_the_fast_tokenizer_alone_gives_the_same_ids(tmp_path, tokenization):
    made = learned(TEXTS, tokenization)
    made.save_pretrained(tmp_path)
    back = AutoTokenizer.from_pretrained(tmp_path)
    assert back(TEXTS)["input_ids"] == encode(made, TEXTS, max_length=99)
    assert set(back("a")) == {"input_ids", "attention_mask"}


def test_padding_goes_to_the_right():
    made = tokenizer(["a", "b", "c"])
    assert made(["a b c", "a"], padding=True)["attention_mask"] == [[1, 1, 1], [1, 0, 0]]


def test_decoding_cleans_nothing_up():
    made = learned(["do n't , x ."])
    assert made.decode(made("x , x .")["input_ids"]) == " x, x."


def test_it_serves_in_a_pipeline():
    made = learned(["我爱 paris"])
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    classify = pipeline(
        "text-classification",
        model=BertForSequenceClassification(config).eval(),
        tokenizer=made,
        device="cpu",
    )
    one, other, same = classify(["我爱 Paris", "Paris", "我爱 PARIS"], batch_size=3)
    assert one["score"] == pytest.approx(same["score"], abs=1e-6) and one["score"] != other["score"]


# Ids


def test_encode_cuts_and_logs_it_once(caplog):
    made = learned(["a b c d e"])
    assert encode(made, ["a b c d e", "c", "a b c", "d e"], max_length=2) == [[3, 4], [5], [3, 4], [6, 7]]
    assert caplog.record_tuples == [
        ("vnait", logging.WARNING, "2 of 4 texts were cut to 2 tokens; the longest has 5.")
    ]


def test_encode_logs_nothing_where_nothing_is_cut(caplog):
    made = learned(["a b"])
    assert encode(made, ["a b", "", "\u200b"], max_length=2) == [[3, 4], [1], [1]]
    assert encode(made, [], max_length=2) == []
    assert encode(made, iter(["b"]), max_length=2) == [[4]]
    assert not caplog.messages


def test_encode_reads_very_long_texts(caplog):
    made = learned(["a b"])
    assert len(encode(made, ["a b " * 20_000], max_length=50_000)[0]) == 40_000
    assert not caplog.messages


@pytest.mark.parametrize("length", [0, -1])
def test_encode_refuses_no_length(length):
    with pytest.raises(InputError, match=f"max_length is {length}; expected at least 1 token"):
        encode(tokenizer(["a"]), ["a"], max_length=length)


def test_unknown_share_counts_tokens_not_texts():
    made = learned(["a b"])
    assert unknown_share(made, [[3, 4, 1], [1]]) == 0.5
    assert unknown_share(made, [[3], [4]]) == 0
    assert unknown_share(made, []) == 0


def test_many_unknown_words_are_reported_past_twenty_percent(caplog):
    counts = TextCounts(max_length=5)
    counts.add([[1, 3, 3, 3, 3]], unknown=1)
    counts.report()
    assert not caplog.messages
    counts.add([[1, 3, 3]], unknown=1)
    counts.report()
    [(name, level, message)] = caplog.record_tuples
    assert (name, level) == ("vnait", logging.WARNING) and message.startswith(
        "25 % of the tokens are unknown words; use "
    )


# Long texts


@pytest.mark.parametrize("tokenization", ["words", "characters"])
@pytest.mark.parametrize("size", [1, 7, 40])
def test_texts_that_are_read_in_stretches_have_the_same_ids(tokenization, size, monkeypatch):
    texts = [
        "one two, three! " * 9,
        "   ",
        "",
        "three" * 30,  # no place to cut
        "two\u0301 e\u0301\n \u0301one\ttwo\r\n\r\n three " * 4,
        "\u6211\u7231two one" * 5,
    ]
    made = tokenizer(["one", "two", "three", "!", "\u6211", "e", "o"], tokenization=tokenization)
    counts, parted = TextCounts(5), TextCounts(5)
    whole = encode(made, texts, max_length=5, tally=counts)
    monkeypatch.setattr("vnait.data.tokens._CHARACTERS", size)
    assert encode(made, texts, max_length=5, tally=parted) == whole
    assert parted == counts


def test_parts_have_a_limit_of_texts_and_of_characters(monkeypatch):
    monkeypatch.setattr("vnait.data.tokens._CHARACTERS", 10)
    monkeypatch.setattr("vnait.data.tokens._PART", 3)
    texts = ["aaaa", "bbbbbb", "c", "", "", "d" * 30, "e"]
    assert list(parts(iter(texts))) == [["aaaa", "bbbbbb"], ["c", "", ""], ["d" * 30], ["e"]]
    assert list(parts([])) == []


def test_the_sides_of_long_pairs_are_cut_as_before(monkeypatch):
    made = tokenizer(["one", "two", "three", "[SEP]"])
    pairs = [Pair.of("one two " * 9, "three"), Pair.of("one", "three two " * 9), Pair.of("", "one")]
    whole = encode(made, pairs, max_length=7)
    monkeypatch.setattr("vnait.data.tokens._CHARACTERS", 8)
    assert encode(made, pairs, max_length=7) == whole
