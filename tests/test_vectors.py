"""Semantic vectors: every format against gensim's own loader, every error, memory, and determinism."""

import bz2
import contextlib
import gzip
import io
import logging
import lzma
import os
import pickle
import subprocess
import sys
import tracemalloc
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
from gensim.models import FastText, KeyedVectors, Word2Vec
from gensim.models.fasttext import load_facebook_vectors
from gensim.test.utils import datapath

from vnait.data import vectors
from vnait.data.vectors import Vectors, streams, writing
from vnait.shared.errors import InputError

WORDS = ["the", "我们", "naïve", "film", "Film", "e\u0301", "1999", "🎬", "\u3000", "a-b"]
SENTENCES = [["good", "film", "good", "cast"], ["bad", "film", "bad", "plot"], ["good", "plot"]] * 4


def some(count=10, dim=7, seed=0):
    rng = np.random.default_rng(seed)
    words = WORDS if count == len(WORDS) else [f"w{i}" for i in range(count)]
    return Vectors(list(words), rng.standard_normal((count, dim)).astype(np.float32), "made up")


def equal(found, words, table):
    assert found.words == list(words)
    assert found.table.dtype == np.float32
    np.testing.assert_array_equal(found.table, table)


def same(found, reference):
    equal(found, reference.index_to_key, reference.vectors)


def in_gensim(made):
    keyed = KeyedVectors(made.dim)
    keyed.add_vectors(made.words, made.table)
    return keyed


def binary(made, between=b"", header=None):
    header = header or f"{len(made.words)} {made.dim}\n".encode()
    return header + b"".join(
        word.encode() + b" " + row.tobytes() + between
        for word, row in zip(made.words, made.table, strict=True)
    )


def text(made, header=None):
    header = f"{len(made.words)} {made.dim}\n" if header is None else header
    lines = [
        " ".join([word, *map(repr, row.tolist())]) for word, row in zip(made.words, made.table, strict=True)
    ]
    return (header + "".join(line + "\n" for line in lines)).encode()


def glove(made):
    return text(made, header="")


LAYOUTS = {
    "word2vec binary": binary,
    "word2vec binary, newlines": lambda made: binary(made, between=b"\n"),
    "word2vec text": text,
    "GloVe text": glove,
}
layouts = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture
def put(tmp_path):
    def put(content, name="vectors"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return put


# Reading, against gensim


# gensim's own
@pytest.mark.filterwarnings("ignore:unclosed file", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("euclidean_vectors.bin", {"binary": True}),
        ("poincare_vectors.bin", {"binary": True}),
        ("high_precision.kv.bin", {"binary": True}),
        ("high_precision.kv.txt", {}),
        ("word2vec_pre_kv_c", {}),
        ("crime-and-punishment.vec", {}),
        ("lee_fasttext.vec", {}),
        ("EN.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt", {}),
        ("test_glove.txt", {"no_header": True}),
    ],
)
def test_published_files_read_as_gensim_reads_them(name, settings):
    reference = KeyedVectors.load_word2vec_format(datapath(name), **settings)
    same(vectors.load(datapath(name)), reference)
    some_words = reference.index_to_key[1::2]
    equal(vectors.load(datapath(name), some_words[::-1]), some_words, reference.vectors[1::2])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "settings", [{"binary": True}, {"binary": False}, {"binary": False, "write_header": False}], ids=str
)
def test_what_gensim_writes(tmp_path, settings, packed):
    path = tmp_path / ("vectors.gz" if packed else "vectors")
    reference = in_gensim(some())
    reference.save_word2vec_format(str(path), **settings)
    same(vectors.load(path), reference)


@layouts
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("chunk", [1, 5, 29, 64, 1 << 20])
def test_every_layout_in_every_chunk(put, monkeypatch, layout, packed, chunk):
    monkeypatch.setattr(streams, "_CHUNK", chunk)
    made = some()
    content = LAYOUTS[layout](made)
    path = put(gzip.compress(content) if packed else content)
    equal(vectors.load(path), made.words, made.table)
    equal(vectors.load(path, {"a-b", "我们", "nowhere", "FILM"}), ["我们", "a-b"], made.table[[1, 9]])


@layouts
def test_the_ending_does_not_matter_and_the_first_of_equal_words_wins(put, layout):
    made = some()
    twice = Vectors.__new__(Vectors)  # what the class refuses, files do hold
    object.__setattr__(twice, "words", ["film", "the", "film"])
    object.__setattr__(twice, "table", made.table[:3])
    path = put(LAYOUTS[layout](twice), "vectors.zip")
    equal(vectors.load(path), ["film", "the"], made.table[:2])
    equal(vectors.load(path, ["film"]), ["film"], made.table[:1])


@layouts
def test_gzip_that_packs_very_tightly(put, layout):
    made = Vectors([f"w{i}" for i in range(2000)], np.ones((2000, 50), np.float32), "made up")
    equal(vectors.load(put(gzip.compress(LAYOUTS[layout](made)))), made.words, made.table)


def test_a_tiny_binary_that_looks_like_text(put):
    made = Vectors(["a"], np.frombuffer(b"5\n7?", dtype=np.float32).reshape(1, 1), "made up")
    same(vectors.load(put(text(made))), in_gensim(made))
    wide = Vectors(["a", "b"], np.frombuffer(b"5\n7?\x01 \n>" * 2, dtype=np.float32).reshape(2, 2), "made up")
    equal(vectors.load(put(binary(wide))), wide.words, wide.table)


def test_glove_words_with_spaces_and_windows_lines(put):
    found = vectors.load(put(b"the 1 2 \r\n. . . 3 4\r\nat name@domain.com 5 6\r\n\r\n"))
    equal(found, ["the", ". . .", "at name@domain.com"], [[1, 2], [3, 4], [5, 6]])


def test_words_that_are_no_utf8_stay_distinct(put):
    found = vectors.load(put(b"3 1\nkter\xec 1\nkter\xed 2\nok 3\n"))
    equal(found, ["kter\\xec", "kter\\xed", "ok"], [[1], [2], [3]])


@pytest.mark.parametrize("layout", ["word2vec binary", "word2vec text", "GloVe text"])
@pytest.mark.parametrize("packed", [False, True])
def test_only_the_rows_asked_for_are_held(put, monkeypatch, layout, packed):
    monkeypatch.setattr(streams, "_CHUNK", 1 << 15)
    monkeypatch.setattr("vnait.data.vectors.sniffing._HEAD", 1 << 15)
    rng = np.random.default_rng(0)
    made = Vectors(
        [f"w{i}" for i in range(10_000)], rng.integers(-9, 9, (10_000, 60)).astype(np.float32), "made up"
    )
    content = LAYOUTS[layout](made)
    path = put(gzip.compress(content, 1) if packed else content)
    kept = made.words[::10]
    del content, made
    tracemalloc.start()
    found = vectors.load(path, kept)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.words) == 1_000
    assert peak < 1.5 * found.table.nbytes + 600_000  # 0.24 MB of 2.4 are kept


# Layouts of other tools


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("film\t1 2 3\nplot\t4 5 6\n", ["film", "plot"]),
        ("film\t1\t2\t3\nplot\t4\t5\t6\n", ["film", "plot"]),
        ("2\t3\nfilm\t1\t2\t3\nplot\t4\t5\t6\n", ["film", "plot"]),
        ("2  3 \r\nfilm  1  2  3\r\nplot  4 5 6 \t\r\n", ["film", "plot"]),
        ("  film 1 2 3\n  plot 4 5 6", ["film", "plot"]),
        ("new york\t1\t2\t3\nplot\t4\t5\t6\n", ["new york", "plot"]),
        ("windows 10\t1 2 3\nwindows 7\t4 5 6\n", ["windows 10", "windows 7"]),
        ("new york\t1\t2\t3\nwindows 10\t4\t5\t6\n", ["new york", "windows 10"]),
        ("2 3\nfilm 1 2 3\niphone 7 4 5 6\n", ["film", "iphone 7"]),
        ("2 3\nfilm 1 2 3\nto infinity 4 5 6\n", ["film", "to infinity"]),
        ("to infinity 1 2 3\nfilm 4 5 6\n", ["to infinity", "film"]),
        ("film 1 2 3\nthe nan 4 5 6\n", ["film", "the nan"]),
        ("film 1.0 2.0 3.0\nwindows 10 4.0 5.0 6.0\n", ["film", "windows 10"]),
        ("windows 10 1.0 2.0 3.0\nfilm 4e0 5.0 6.0\n", ["windows 10", "film"]),
        (". . . 1 2 3\nfilm 4 5 6\n", [". . .", "film"]),
        ("R$ 0,00 1 2 3\nfilm 4 5 6\n", ["R$ 0,00", "film"]),
        ("0 1 2 3\n1 4 5 6\n", ["0", "1"]),
        ("2 3\n2 1 2 3\n3 4 5 6\n", ["2", "3"]),
        ("1e5 1 2 3\n-inf 4 5 6\n", ["1e5", "-inf"]),
        ("film 1 2 3\nplot 4 5 6\nfilm 7 8 9\n", ["film", "plot"]),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_text_in_the_layouts_of_other_tools(put, content, words, mark):
    path = put((mark + content).encode())
    equal(vectors.load(path), words, [[1, 2, 3], [4, 5, 6]])
    equal(vectors.load(path, words[1:]), words[1:], [[4, 5, 6]])
    assert vectors.info(path)["dim"] == 3


@pytest.mark.parametrize(
    "content",
    ["2 3\nfilm 1 2 3 \nplot 4 5 6\n", "2 3\r\nfilm 1 2 3\r\nplot 4 5 6", "2 3\n7 1 2 3\n8 4 5 6\n"],
)
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".xz"])
def test_reading_and_gensim_agree(put, content, ending):
    path = put(PACK[ending](content.encode()), f"v.txt{ending}")
    same(vectors.load(path), KeyedVectors.load_word2vec_format(str(path)))


def zipped(content, *names):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ("v.txt",):
            archive.writestr(name, content)
    return target.getvalue()


PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zip": zipped}


@layouts
@pytest.mark.parametrize("packing", ["bz2", "xz", "zip"])
def test_packed_files(put, layout, packing):
    made = Vectors([f"w{i}" for i in range(3_000)], np.ones((3_000, 50), np.float32), "made up")
    path = put(PACK[f".{packing}"](LAYOUTS[layout](made)))
    equal(vectors.load(path), made.words, made.table)
    equal(vectors.load(path, made.words[5:9]), made.words[5:9], made.table[5:9])
    assert vectors.info(path)["format"].endswith(f", {packing}")
    with pytest.raises(InputError):
        vectors.load(put(path.read_bytes()[:-60]))


def test_a_zip_archive_that_packs_more_tightly_than_zip_usually_does(put):
    rows = "".join(f"w{row}{' 0' * 20_000}\n" for row in range(40))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_BZIP2) as target:
        target.writestr("v.txt", rows)
    found = vectors.load(put(archive.getvalue()), [f"w{row}" for row in range(40)])
    assert found.words[-1] == "w39" and not found.table.any()


PHRASES = Vectors(["new york", "film", "vitamin a", "r & b", "x y z"], some(5, 8).table, "made up")


@pytest.mark.parametrize("between", [b"", b"\n"])
@pytest.mark.parametrize("chunk", [50, 1 << 18])
def test_phrases_in_a_binary(put, monkeypatch, between, chunk):
    monkeypatch.setattr(streams, "_CHUNK", chunk)
    path = put(binary(PHRASES, between))
    equal(vectors.load(path), PHRASES.words, PHRASES.table)
    equal(vectors.load(path, ["film", "x y z"]), ["film", "x y z"], PHRASES.table[[1, 4]])


@pytest.mark.parametrize("read", [vectors.load, vectors.info, lambda path: vectors.load(path, ["w1"])])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text(MADE4 := some(4, 3)).decode().encode("utf-16"), "is UTF-16 text; save it again as UTF-8"),
        (text(MADE4).decode().encode("utf-16-le"), "is mostly NUL characters, like UTF-16"),
        (text(MADE4).decode().encode("utf-32"), "is UTF-32 text; save"),
        (b"\xe9t\xe9 1 2\nw1 3 4\n", r"line 1 is not UTF-8 \(byte 0xe9\).*such as Latin-1 or GB 18030"),
        (b"w1 1 2\ncaf\xe9 3 4\n", r"line 2 is not UTF-8 \(byte 0xe9\)"),
        (b"2 2\nw1 1 2\nna\xefve 3 4\n", r"line 3 is not UTF-8 \(byte 0xef\)"),
        ("1 2\n电影\t1\t2\n".encode("gbk"), r"line 2 is not UTF-8 \(byte 0xb5\)"),
        (binary(MADE4).replace(b"w1", b"\xe9e"), r"word 2 is not UTF-8 \(byte 0xe9\)"),
        (binary(MADE4).replace(b"w1", b"w\1"), "word 2 has control characters"),
        (binary(MADE4, header=b"2 7\n"), "word 2 has control characters|can be read|continues"),
        (zipped(b"a 1 2\n", "v.50.txt", "v.100.txt"), "can't be read: it has 2 files"),
        (b"\x28\xb5\x2f\xfd\0\0\0", "is packed by zstd; unpack it"),
        (b"\x04\x22\x4d\x18\n2 2\nw1 1 2\nplot 3 4\n", "is packed by lz4; unpack it"),
        (gzip.compress(gzip.compress(text(MADE4))), "has a gz file inside; unpack it"),
        (zipped(lzma.compress(text(MADE4))), "has a xz file inside; unpack it"),
        (
            b"v.txt".ljust(257, b"\0") + b"ustar".ljust(255, b"\0") + text(MADE4),
            "is a tar archive; unpack it",
        ),
        (bz2.compress(text(MADE4))[:-20], "can't be read: Compressed file ended"),
        (text(MADE4).replace(b"\n", b"\r"), "has lines that end in a carriage return alone"),
        (b"2,2\nfilm,0.1,0.2\nplot,0.3,0.4\n", "has ',' between its columns"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n", "run git lfs pull"),
        (b"<!DOCTYPE html>\n<html>404</html>\n", "is a web page or XML; get the file itself"),
        (b"\x93NUMPY\1\0v\0{'descr': '<f4'}\n", "is a NumPy array, which has no words"),
        (b"film,0.1,0.2\nplot,0.3,0.4\n", "has ',' between its columns; put spaces or tabs there"),
        (b'{"film": [0.1, 0.2]}', "is JSON; save words and vectors as text"),
        (b"film 1 2 3\nplot 4 5\n", "line 2 has 2 numbers; expected 3"),
        (b"w1 1 2 3\nplot  4 5\n", "line 2 has 2 numbers; expected 3"),
        (b"film 1.5 2 3\nplot 4 5 6\nw1 7 8 9 1\n", "line 3 has 4 numbers; expected 3"),
        (b"3 2\nfilm 1 2\nw1 0.5 1 2\nplot 3 4\n", "line 3 has 3 numbers; expected 2"),
        (b"3 2\nfilm 1 2\nfilm 1 2 plot 3 4\n", r"2 of the 3 vectors can be read"),
    ],
    ids=lambda value: "file" if isinstance(value, bytes) else None,  # packed bytes have the time
)
def test_other_files_are_refused_by_name(put, read, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read(put(content))
    assert str(caught.value).count("\n") == 0


# Words as texts have them


SPELLINGS = {
    "Hund": "hund",
    "HAUS": "haus",
    unicodedata.normalize("NFD", "Café"): "café",
    "ΟΔΥΣΣΕΎΣ": "οδυσσεύς",
    "İyi": "iyi",
    "co\xadop": "coop",
    "❤\ufe0f": "❤",
    "\ufeffbom": "bom",
}


@pytest.mark.parametrize("layout", [*LAYOUTS, "kv"])
def test_a_word_is_looked_up_in_other_case_and_normal_form(tmp_path, put, layout):
    made = Vectors([*SPELLINGS, "\u3164"], some(len(SPELLINGS) + 1, 4).table, "made up")
    if layout == "kv":
        path = tmp_path / "v.kv"
        in_gensim(made).save(str(path))
    else:
        path = put(LAYOUTS[layout](made))
    equal(vectors.look_up(path, set(SPELLINGS.values())), SPELLINGS.values(), made.table[:-1])
    equal(vectors.look_up(path, ["haus"], first=1), ["hund", "haus"], made.table[:2])
    equal(vectors.look_up(path, ["haus"], first=99), SPELLINGS.values(), made.table[:-1])
    with pytest.raises(InputError, match="has none of the 1 words"):
        vectors.load(path, ["haus"])


@pytest.mark.parametrize(
    "order", [["HUND", "hund", "Hund"], ["hund", "HUND", "Hund"], ["Hund", "HUND", "hund"]]
)
@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_word_as_written_comes_before_others(put, order, first):
    made = Vectors(order, some(3, 4).table, "made up")
    found = vectors.look_up(put(glove(made)), ["hund"], first=first)
    equal(found, ["hund"], made.table[[made.words.index("hund")]])
    alone = Vectors(["Hund", "HUND"], made.table[:2], "made up")
    equal(vectors.look_up(put(glove(alone)), ["hund"]), ["hund"], alone.table[:1])


def test_ngrams_come_after_other_case():
    path = datapath("crime-and-punishment.bin")
    reference = load_facebook_vectors(path)
    known = reference.key_to_index
    named = next(word for word in known if word.isalpha() and word != word.lower() not in known)
    small = named.lower()
    found = vectors.look_up(path, [small, "zzunseen"])
    equal(found, [small, "zzunseen"], [reference[named], reference["zzunseen"]])


@pytest.mark.parametrize("number", ["1e30", "-2.9e26", "1e7"])
def test_a_number_that_hides_all_others_is_refused_with_its_word(put, number):
    path = put(f"warm 1 0\nnew {number} 0\nfilm 0 1\n".encode())
    with pytest.raises(InputError, match=r"the vector of 'new' has the number .* beside which all others"):
        vectors.look_up(path, ["new", "film"])
    assert vectors.look_up(path, ["film"]).words == ["film"]


# gensim's own files and fastText


@pytest.mark.parametrize(
    "name", ["lee_fasttext.bin", "lee_fasttext_new.bin", "toy-model-pretrained.bin", "cp852_fasttext.bin"]
)
def test_fasttext_and_its_subwords(name, caplog):
    reference = load_facebook_vectors(datapath(name))
    caplog.clear()
    same(vectors.load(datapath(name)), reference)
    known = reference.index_to_key[3]
    asked = ["unseenword", known, "电影", "unseenword", ""]
    distinct = ["unseenword", known, "电影", ""]
    found = vectors.load(datapath(name), asked)
    assert not caplog.records
    equal(found, distinct, [reference.get_vector(word) for word in distinct])


def test_fasttext_without_subwords_knows_only_its_words(tmp_path):
    from gensim.models.fasttext import save_facebook_model

    model = FastText(SENTENCES, vector_size=4, min_count=1, max_n=0, bucket=0, epochs=1)
    path = tmp_path / "fasttext"
    save_facebook_model(model, str(path))
    found = vectors.load(path, ["unseen", "film"])
    equal(found, ["film"], [model.wv["film"]])


@pytest.mark.parametrize("limit", [1, 10**9], ids=["arrays beside", "one file"])
def test_keyed_vectors(tmp_path, limit):
    path, made = tmp_path / "v.kv", some()
    in_gensim(made).save(str(path), sep_limit=limit)
    assert (tmp_path / "v.kv.vectors.npy").exists() == (limit == 1)
    equal(vectors.load(path), made.words, made.table)
    equal(vectors.load(path, ["?", *made.words[:0:-1]]), made.words[1:], made.table[1:])
    expected = {"format": "gensim KeyedVectors", "words": 10, "dim": 7, "bytes": path.stat().st_size}
    assert vectors.info(path) == {**expected, "first": made.words[:5]}


def test_whole_gensim_models(tmp_path):
    settings = {"vector_size": 4, "min_count": 1, "epochs": 1}
    plain, subwords = Word2Vec(SENTENCES, **settings), FastText(SENTENCES, bucket=50, **settings)
    for model in (plain, subwords):
        model.save(str(tmp_path / f"{type(model).__name__}.model"))
    same(vectors.load(tmp_path / "Word2Vec.model"), plain.wv)
    same(vectors.load(tmp_path / "FastText.model"), subwords.wv)
    found = vectors.load(tmp_path / "FastText.model", ["unseen"])
    equal(found, ["unseen"], [subwords.wv["unseen"]])


# Errors in files

MADE = some(4, 3)
GOOD = {"binary": binary(MADE), "text": text(MADE), "glove": glove(MADE)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; get the file"),
        (gzip.compress(b"", mtime=0), "is empty; get the file"),
        (b"once upon a time\nthere was a file\n", "has no known format: its first line is neither"),
        (b"word\n", "has no known format"),
        (b"a 1 x 3\n", "has no known format"),
        (GOOD["binary"][:-5], r" 3 of the 4 vectors can be read \(the file ends"),
        (GOOD["binary"][:5], r"0 of the 4 vectors can be read"),
        (binary(MADE, header=b"5 3\n"), r"4 of the 5 vectors can be read"),
        (
            binary(MADE, header=b"3 3\n"),
            "continues after the 3 vectors of width 3 in its header",
        ),
        (binary(MADE, header=b"4 2\n"), "continues after the 4 vectors of width 2"),
        (binary(MADE, header=b"4 4\n"), "of the 4 vectors can be read"),
        (binary(MADE, header=b"999999999999 3\n"), "4 of the 999,999,999,999 vectors"),
        (binary(MADE, header=b"4 999999999999\n"), "0 of the 4 vectors"),
        (b"2 3\n" + b"\0" * 200_000, r"0 of the 2 vectors .* \(no word ends where one should\)"),
        (b"0 3\n", "has no vectors"),
        (b"3 0\n", "is cut or damaged|has no vectors"),
        (
            text(MADE, header="5 3\n"),
            r"4 of the 5 vectors can be read \(the file ends there\)",
        ),
        (text(MADE, header="3 3\n"), "continues after the 3 vectors of width 3"),
        (text(MADE, header="4 2\n"), "line 2 has 3 numbers; expected 2"),
        (text(MADE, header="4 4\n"), "line 2 has 3 numbers; expected 4"),
        (GOOD["text"][: GOOD["text"].rindex(b" ")], r"3 of the 4 vectors .* \(line 5 is cut\)"),
        (b"a 1 2\nb 1\n", "line 2 has 1 numbers; expected 2"),
        (b"a 1 2\nb 1 2\nc 1 2 3\n", "line 3 has 3 numbers; expected 2"),
        (b"a 1 2\n\nb 1 2\n", "line 2 is empty; expected a word and its 2 numbers"),
        (b"2 2\na 1 2\nb 1 0.x\n", "line 3 has '0.x', not a number"),
        (b"2 2\na 1 y\nb 1 2\n", "line 2 has 'y', not a number"),
        (b"2 2\na 1 2\nb 1 1_0\n", "line 3 has '1_0', not a number"),
        (b"a 1 2\nb 1 0.x\n", "line 2 has '0.x', not a number"),
        (b"a 1 2\nb 1 nan\n", "the vector of 'b' has NaN or infinity"),
        (b"a 1 2\nb -inf 1\n", "the vector of 'b' has NaN or infinity"),
        (b"a 1 2\nb 1 1e99\n", "the vector of 'b' has NaN or infinity"),
        (binary(MADE)[:-4] + np.float32("nan").tobytes(), "the vector of 'w3' has NaN or infinity"),
        (
            pickle.dumps(["anything"]),
            "is a Python pickle, which can run any code .* rename it to .kv or .model",
        ),
        (
            gzip.compress(Path(datapath("toy-model.bin")).read_bytes(), mtime=0),
            "is a fastText model inside gzip; unpack it",
        ),
        (b"\x1f\x8b nonsense", "can't be read"),
    ],
)
def test_errors_name_the_file_and_the_fault(put, content, message):
    path = put(content, "faulty.file")
    with pytest.raises(InputError, match=message) as caught:
        vectors.load(path)
    assert "faulty.file" in str(caught.value)


@pytest.mark.parametrize("read", [vectors.load, vectors.info])
def test_errors_about_the_place(tmp_path, read):
    with pytest.raises(InputError, match=r"there is no file .*nowhere; check the path"):
        read(tmp_path / "nowhere")
    with pytest.raises(InputError, match="can't be read: Is a directory"):
        read(tmp_path)


@layouts
def test_none_of_the_words(put, layout):
    path = put(LAYOUTS[layout](some()))
    asked = [f"unseen{i}" for i in range(1200)]
    with pytest.raises(
        InputError, match="has none of the 1,200 words needed, such as 'unseen0', 'unseen1', 'unseen2'; "
    ):
        vectors.load(path, asked)
    with pytest.raises(InputError, match="has none of the 0 words needed; "):
        vectors.load(path, [])
    with pytest.raises(InputError, match="words is one string, 'film'; give a list"):
        vectors.load(path, "film")


@pytest.mark.parametrize("read", [vectors.load, vectors.info, lambda path: vectors.load(path, ["w0"])])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("between", [b"", b"\n"])
def test_a_binary_cut_anywhere_is_refused(put, read, packed, between):
    content = binary(MADE, between)
    whole = gzip.compress(content) if packed else content.rstrip(b"\n")
    for size in range(len(whole)):
        with pytest.raises(InputError):
            read(put(whole[:size]))


def test_a_binary_of_phrases_cut_anywhere_is_refused(put):
    whole = binary(PHRASES)
    for size in range(len(whole)):
        with pytest.raises(InputError):
            vectors.load(put(whole[:size]))


def test_a_text_cut_anywhere_is_refused_unless_only_its_last_number_is_shorter(put):
    whole = GOOD["text"]
    for size in range(whole.rindex(b" ") + 1):
        with pytest.raises(InputError):
            vectors.load(put(whole[:size]))
    equal(vectors.load(put(whole[:-1])), MADE.words, MADE.table)


@pytest.mark.parametrize("read", [vectors.load, vectors.info])
@pytest.mark.parametrize("name", ["toy-model.bin", "lee_fasttext.bin"])
def test_a_cut_fasttext_model_is_refused_and_never_hangs(put, read, name):
    whole = Path(datapath(name)).read_bytes()
    rng = np.random.default_rng(0)
    for size in [1, 7, 8, 40, 55, 60, 70, 80, 90, *rng.integers(91, len(whole) // 3, 20)]:
        with pytest.raises(InputError, match=r"vectors|fastText"):
            read(put(whole[:size]))


def test_a_cut_gzip_is_refused_with_the_vectors_read(put):
    whole = gzip.compress(binary(some(5_000, 20)))
    with pytest.raises(
        InputError, match=r"is cut or damaged: 2,\d{3} of the 5,000 vectors .* \(Compressed file ended"
    ):
        vectors.load(put(whole[: len(whole) // 2]))


def test_fasttext_with_pruned_ngrams(put):
    whole = Path(datapath("toy-model.bin")).read_bytes()
    matrix = whole.index(np.array([122, 5], dtype="<i8").tobytes())
    sizes = 8 + 56 + 12 + 8  # magic and version, settings, three sizes, the number of tokens
    pruned = (
        whole[:sizes]
        + (1).to_bytes(8, "little")
        + whole[sizes + 8 : matrix - 1]
        + bytes(8)
        + whole[matrix - 1 :]
    )
    assert vectors.info(put(pruned))["first"] == vectors.info(datapath("toy-model.bin"))["first"]
    same(vectors.load(put(pruned)), load_facebook_vectors(datapath("toy-model.bin")))


def test_fasttext_models_that_gensim_cannot_read(put):
    with pytest.raises(
        InputError, match="is a fastText classifier; give a model trained with skipgram or cbow"
    ):
        vectors.load(datapath("pang_lee_polarity_fasttext.bin"))
    whole = bytearray(Path(datapath("toy-model.bin")).read_bytes())
    matrix = whole.index(np.array([122, 5], dtype="<i8").tobytes())  # 22 words and 100 buckets, 5 wide
    for (at, new), message in {
        (matrix - 1, b"\1"): "is a quantized fastText model",
        (matrix + 1, b"\xff"): r"its matrix of 65,402 rows is cut",
        (matrix, b"\x79"): "is a damaged fastText model: its sizes disagree",
        (matrix + 8, b"\4"): "its matrix has width 4, and its settings 5",
    }.items():
        changed = bytearray(whole)
        changed[at : at + 1] = new
        with pytest.raises(InputError, match=message):
            vectors.load(put(changed))


def test_fasttext_sizes_that_no_file_has(put):
    whole = Path(datapath("toy-model.bin")).read_bytes()
    sizes = 8 + 56 + 12  # magic and version, settings, three sizes; then tokens and pruned n-grams
    for at, size in ((sizes + 8, 2**62), (sizes + 8, 2**59), (sizes, -1), (sizes, 2**62)):
        changed = put(whole[:at] + size.to_bytes(8, "little", signed=True) + whole[at + 8 :])
        for use in (vectors.info, vectors.load):
            with contextlib.suppress(InputError):  # the number of tokens itself does no harm
                use(changed)


def test_damaged_and_foreign_pickles(put, tmp_path):
    with pytest.raises(
        InputError, match=r"can't be read as gensim's own file .* keep its \.npy files beside it"
    ):
        vectors.load(put(pickle.dumps(["anything"]), "list.kv"))
    in_gensim(some()).save(str(tmp_path / "v.kv"), sep_limit=1)
    (tmp_path / "v.kv.vectors.npy").unlink()
    with pytest.raises(InputError, match="can't be read as gensim's own file"):
        vectors.load(tmp_path / "v.kv")
    from gensim.corpora import Dictionary

    Dictionary(SENTENCES).save(str(tmp_path / "d.model"))
    with pytest.raises(InputError, match="is a Dictionary; give gensim KeyedVectors or Word2Vec"):
        vectors.load(tmp_path / "d.model")


# Writing


def nasty(dim=6):
    # Any bits at all that make a finite number: tiny, huge, subnormal, negative zero.
    bits = np.random.default_rng(1).integers(0, 1 << 32, 4000, dtype=np.uint32).view(np.float32)
    table = bits[np.isfinite(bits)][: len(WORDS) * dim].reshape(len(WORDS), dim)
    table[0, :3] = [-0.0, 1e-45, np.finfo(np.float32).max]
    return Vectors(list(WORDS), table, "made up")


ENDINGS = {
    ".bin": ("word2vec binary", {"binary": True}),
    ".bin.gz": ("word2vec binary, gzip", {"binary": True}),
    ".txt": ("word2vec text", {}),
    ".vec": ("word2vec text", {}),
    ".vec.gz": ("word2vec text, gzip", {}),
    ".kv": ("gensim KeyedVectors", None),
}
endings = pytest.mark.parametrize("ending", ENDINGS)


@endings
def test_what_is_saved_comes_back_bit_for_bit_here_and_in_gensim(tmp_path, ending):
    made, path = nasty(), tmp_path / f"vectors{ending}"
    vectors.save(made, path)
    form, settings = ENDINGS[ending]
    found = vectors.load(path)
    assert found.words == made.words and found.table.tobytes() == made.table.tobytes()
    keyed = (
        KeyedVectors.load(str(path))
        if settings is None
        else KeyedVectors.load_word2vec_format(str(path), **settings)
    )
    assert keyed.index_to_key == made.words and keyed.vectors.tobytes() == made.table.tobytes()
    size = path.stat().st_size
    assert vectors.info(path) == {"format": form, "words": 10, "dim": 6, "bytes": size, "first": WORDS[:5]}
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("ending", [".bin", ".bin.gz", ".vec", ".vec.gz"])
def test_the_same_vectors_give_the_same_bytes(tmp_path, monkeypatch, ending):
    for second, folder in enumerate(("a", "b")):
        monkeypatch.setattr("time.time", lambda second=second: 1e9 * second)
        vectors.save(some(), tmp_path / folder / f"v{ending}")
    assert (tmp_path / "a" / f"v{ending}").read_bytes() == (tmp_path / "b" / f"v{ending}").read_bytes()


def test_a_large_table_is_still_one_kv_file(tmp_path):
    table = np.full((10_500, 1_000), 0.5, np.float32)  # gensim would put 10 Mi numbers and more beside
    vectors.save(Vectors([f"w{i}" for i in range(10_500)], table, "made up"), tmp_path / "v.kv")
    assert os.listdir(tmp_path) == ["v.kv"]
    equal(vectors.load(tmp_path / "v.kv", ["w3"]), ["w3"], table[:1])


@endings
def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch, ending):
    path = tmp_path / f"vectors{ending}"
    vectors.save(some(), path)
    before = path.read_bytes()

    def half(made, file):
        (file.write if hasattr(file, "write") else file.write_bytes)(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "_write_keyed", half)
    monkeypatch.setattr(writing, "_WRITERS", dict.fromkeys(writing._WRITERS, half))
    with pytest.raises(InputError, match="was not written: No space left on device"):
        vectors.save(some(seed=1), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("word", ["New York", "a\nb", "tab\t", ""])
@pytest.mark.parametrize("ending", [".bin", ".txt"])
def test_words_that_a_format_cannot_hold(tmp_path, word, ending):
    made = Vectors([word], np.ones((1, 2), dtype=np.float32), "made up")
    with pytest.raises(InputError, match=r"the word .* is empty or has white space; save as \.kv"):
        vectors.save(made, tmp_path / f"v{ending}")
    assert not os.listdir(tmp_path)
    vectors.save(made, tmp_path / "v.kv")
    equal(vectors.load(tmp_path / "v.kv"), [word], made.table)


@pytest.mark.parametrize("name", ["v", "v.npy", "v.gz", "v.kv.gz", "v.txt.zip"])
def test_unknown_endings(tmp_path, name):
    with pytest.raises(InputError, match=r"has no known ending; end it with \.bin"):
        vectors.save(some(), tmp_path / name)
    assert not os.listdir(tmp_path)


def test_a_lone_surrogate_cannot_be_saved(tmp_path):
    with pytest.raises(InputError, match="is not valid Unicode"):
        vectors.save(Vectors(["\ud800"], np.ones((1, 2), dtype=np.float32), "made up"), tmp_path / "v.bin")


@endings
def test_saved_vectors_are_read_as_they_were(tmp_path, put, ending):
    made = some()
    vectors.save(vectors.load(put(glove(made))), tmp_path / f"v{ending}")
    facts = vectors.info(tmp_path / f"v{ending}")
    assert (facts["format"], facts["words"], facts["dim"]) == (ENDINGS[ending][0], 10, 7)
    equal(vectors.load(tmp_path / f"v{ending}"), made.words, made.table)


@pytest.mark.parametrize(
    ("layout", "name"), [("GloVe text", "GloVe text"), ("word2vec text", "word2vec text")]
)
def test_info_of_text(put, layout, name):
    path = put(LAYOUTS[layout](some()))
    assert vectors.info(path) == {
        "format": name,
        "words": 10,
        "dim": 7,
        "bytes": path.stat().st_size,
        "first": WORDS[:5],
    }


def test_info_of_fasttext():
    found = vectors.info(datapath("crime-and-punishment.bin"))
    first = ["и", "в", "на", "the", "and"]
    assert found == {"format": "fastText", "words": 291, "dim": 5, "bytes": 19619, "first": first}


def test_how_the_words_of_a_file_are_written(put, tmp_path):
    words = ["film", "Film", "new_york", "e\u0301", "фильм", "1999", "电影", "_", "new york", "co\xadop"]
    path = tmp_path / "v.kv"
    in_gensim(Vectors(words, some(10, 3).table, "made up")).save(str(path))
    facts = vectors.spelling(vectors.words_in(path))
    assert facts == {
        "normalized": 0.7,
        "capitals": 0.1,
        "not_nfc": 0.1,
        "phrases": 0.2,
        "scripts": {"Latin": 0.6, "none": 0.2, "Cyrillic": 0.1, "CJK": 0.1},
        "examples": ["Film", "e\u0301", "co\xadop"],
    }
    path = put(glove(Vectors(words[:6], some(6, 3).table, "made up")))
    assert list(vectors.words_in(path)) == words[:6]
    fasttext = datapath("crime-and-punishment.bin")
    assert list(vectors.words_in(fasttext)) == load_facebook_vectors(fasttext).index_to_key


# Vectors and align


@pytest.mark.parametrize(
    ("words", "table", "message"),
    [
        (
            ["a"],
            np.ones((2, 3), np.float32),
            r"src: 1 words with a float32 table of shape \(2, 3\); give one",
        ),
        (["a"], np.ones((1, 3)), "with a float64 table"),
        (["a"], np.ones(1, np.float32), r"of shape \(1,\)"),
        ([], np.ones((0, 3), np.float32), "src has no vectors"),
        (["a", "b", "a"], np.ones((3, 2), np.float32), "src: the word 'a' occurs twice"),
        (
            ["a", "b"],
            np.array([[1, 2], [np.inf, 2]], np.float32),
            "src: the vector of 'b' has NaN or infinity",
        ),
        (
            ["a", "b"],
            np.array([[np.nan, 2], [1, 2]], np.float32),
            "src: the vector of 'a' has NaN or infinity",
        ),
    ],
)
def test_vectors_are_checked(words, table, message):
    with pytest.raises(InputError, match=message):
        Vectors(words, table, "src")


def test_align():
    made = some()
    table, missing = vectors.align(made, ["[PAD]", "film", "unseen", "the", "film"])
    assert missing == 2 and table.dtype == np.float32
    np.testing.assert_array_equal(table[[1, 3, 4]], made.table[[3, 0, 3]])
    np.testing.assert_allclose(table[[0, 2]], [made.table.mean(0)] * 2, rtol=1e-5)
    table[:] = 0
    assert made.table.any()


@pytest.mark.parametrize("vocabulary", [["FILM", "x"], []])
def test_align_with_nothing_known(vocabulary):
    with pytest.raises(InputError, match=f"made up has none of the {len(vocabulary)} words needed"):
        vectors.align(some(), vocabulary)


# Training

TRAIN = """
import sys
from vnait.data import vectors
assert "gensim" not in sys.modules, "importing vnait.data.vectors imported gensim"
sentences = [["good", "film", "good", "cast"], ["bad", "film", "bad", "plot"], ["good", "plot"]] * 4
found = vectors.train(sentences, dim=8, seed=3)
print(found.words, found.table.tobytes().hex())
"""


def test_training_is_the_same_in_every_process_and_silent():
    vectors.train(SENTENCES[:5], dim=5, seed=9)
    np.random.seed(7)
    here = vectors.train(SENTENCES, dim=8, seed=3)
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", TRAIN], env=environment, capture_output=True, text=True)
        assert done.stderr == "" and done.returncode == 0
        assert done.stdout == f"{here.words} {here.table.tobytes().hex()}\n"


# 38,000 words are enough for several workers, if there were any
@pytest.mark.parametrize("times", [1, 1_000])
def test_training_is_skip_gram_with_every_setting(times):
    settings = {"min_count": 4, "epochs": 3, "seed": 5}
    same(
        vectors.train(SENTENCES * times, dim=6, **settings),
        Word2Vec(SENTENCES * times, vector_size=6, sg=1, workers=1, **settings).wv,
    )


def test_training_keeps_gensim_quiet_and_only_for_its_own_time(caplog):
    caplog.set_level(logging.INFO, logger="gensim")
    vectors.train(SENTENCES, dim=4, epochs=1)
    assert not caplog.records
    assert logging.getLogger("gensim").level == logging.INFO


def test_training_records_its_settings_and_depends_on_its_seed():
    found = vectors.train(SENTENCES, dim=6, seed=5)
    assert "12 sentences" in found.source and "seed 5" in found.source
    assert not np.array_equal(found.table, vectors.train(SENTENCES, dim=6, seed=6).table)


def test_words_far_into_a_long_sentence_are_trained():
    words = ["a", "b"] * 5_000 + ["late", "later"] * 50
    one, more = (vectors.train([words], dim=4, min_count=1, epochs=epochs) for epochs in (1, 2))
    moved = one.table[one.words.index("late")] - more.table[more.words.index("late")]
    assert np.abs(moved).max() > 1e-4


@pytest.mark.parametrize(
    ("sentences", "settings", "message"),
    [
        ([], {}, "the 0 texts have no word; give texts that are not empty"),
        (
            [["a", "b"], ["c"]],
            {},
            r"no word occurs 2 times in the texts \(min_count is 2, and there are 2 texts\): give more",
        ),
        (SENTENCES, {"min_count": 99}, "no word occurs 99 times"),
        (["one string"], {}, "sentence 1 is one string, 'one string'; give a list of its words"),
        (SENTENCES, {"dim": 0}, "dim is 0; give a whole number of at least 1"),
        (SENTENCES, {"epochs": 0}, "epochs is 0"),
        (SENTENCES, {"epochs": -1}, "epochs is -1"),
        (SENTENCES, {"min_count": 0}, "min_count is 0"),
        (SENTENCES, {"seed": -1}, "seed is -1; give a whole number of at least 0"),
    ],
)
def test_training_errors(sentences, settings, message):
    with pytest.raises(InputError, match=message):
        vectors.train(sentences, **settings)


def test_a_seed_that_no_generator_takes_is_refused():
    with pytest.raises(InputError, match=f"seed is {2**32}; give a whole number below {2**32}"):
        vectors.train([["a", "b"]] * 4, seed=2**32)
