"""Reading tables: every format, every refusal, and cells that stay as they were written."""

import bz2
import codecs
import csv
import gzip
import hashlib
import io
import json
import logging
import lzma
import os
import tracemalloc
import zipfile
from dataclasses import replace
from datetime import time
from itertools import product
from pathlib import Path

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import python
from vnait.data import Table, formats, read, stream
from vnait.data.labels import labels_in
from vnait.shared.errors import InputError

ODD = [
    "我爱北京，天安门。",
    "東京タワーは高い",
    "ภาษาไทยที่นี่",
    "👩‍👩‍👧 ok 👍🏽",
    "السَّلام عليكم",
    "cafe\u0301 naïve",
    'she said "no", twice',
    "two\nlines",
    "two\r\nlines",
    "tab\there",
    " spaces kept ",
    "\u2028 separators \x85",
    "#no comment \\n",
]
CELLS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


def written(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def refused(source, **options) -> str:
    with pytest.raises(InputError) as error:
        read(source, **options)
    message = str(error.value)
    assert "\n" not in message
    return message


# The table itself


def table(texts, labels=None) -> Table:
    return Table(texts=texts, labels=labels, name="t", dropped=0)


def test_fingerprint_is_sixteen_hexadecimal_digits_of_the_content_alone():
    one = Table(texts=["a", "b"], labels=["x", "y"], name="one", dropped=0)
    other = Table(texts=["a", "b"], labels=["x", "y"], name="other", dropped=3)
    assert one.fingerprint == other.fingerprint
    assert len(one.fingerprint) == 16 and int(one.fingerprint, 16)


@pytest.mark.parametrize(
    "other",
    [
        table(["a", "b"]),
        table(["ab", ""], ["x", "y"]),
        table(["a", "b", "x"], ["y"]),
        table(["b", "a"], ["x", "y"]),
        table(["a", "b"], ["y", "x"]),
        table(["a\nb"], ["x", "y"]),
        table(['a", "b'], ["x", "y"]),
        table(["a", "b"], []),
    ],
)
def test_fingerprint_separates_differently_cut_cells(other):
    assert other.fingerprint != table(["a", "b"], ["x", "y"]).fingerprint


def test_a_fingerprint_is_that_of_the_whole_as_json():
    for texts, labels in ((["a", 'é "b"'] * 5000, ["x", "y"] * 5000), (["a"], None), ([], [])):
        whole = json.dumps([texts, labels]).encode()
        assert table(texts, labels).fingerprint == hashlib.sha256(whole).hexdigest()[:16]


def test_select_keeps_order_and_everything_else():
    whole = Table(texts=["a", "b", "c"], labels=["1", "2", "3"], name="n", dropped=4)
    assert whole.select(iter([2, 0, 2])) == Table(
        texts=["c", "a", "c"], labels=["3", "1", "3"], name="n", dropped=4
    )
    assert table(["a", "b"]).select([1]) == table(["b"])
    assert len(whole) == 3 and len(whole.select([])) == 0


# Formats


def frame(texts, labels) -> pd.DataFrame:
    return pd.DataFrame({"id": range(len(texts)), "text": texts, "label": labels})


# pandas quotes a lone carriage return only if it is part of the line ending.
def as_csv(path, texts, labels):
    frame(texts, labels).to_csv(path, index=False, lineterminator="\r\n")


def as_tsv(path, texts, labels):
    frame(texts, labels).to_csv(path, index=False, sep="\t", lineterminator="\r\n")


def as_json(path, texts, labels):
    content = "\n".join(
        json.dumps({"text": a, "label": b}, ensure_ascii=False) for a, b in zip(texts, labels, strict=True)
    )
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content.encode()))


def as_parquet(path, texts, labels):
    frame(texts, labels).to_parquet(path)


WRITERS = {
    "csv": as_csv,
    "csv.gz": as_csv,
    "csv.zip": as_csv,
    "csv.xz": as_csv,
    "tsv": as_tsv,
    "tsv.gz": as_tsv,
    "jsonl": as_json,
    "jsonl.gz": as_json,
    "jsonl.bz2": as_json,
    "json": as_json,
    "json.gz": as_json,
    "parquet": as_parquet,
}


@pytest.mark.parametrize("extension", WRITERS)
def test_every_format_gives_the_cells_as_written(tmp_path, extension):
    path = tmp_path / f"data.{extension}"
    labels = ["1", "0", "NA", "None", "null", "nan", "True", "1.0", "", "好", " x ", "N/A", "-"][: len(ODD)]
    labels[8] = "007"
    WRITERS[extension](path, ODD, labels)
    assert read(str(path)) == Table(texts=ODD, labels=labels, name=str(path), dropped=0)


@pytest.mark.parametrize("extension", WRITERS)
def test_a_stream_gives_the_same_texts_at_each_call(tmp_path, extension):
    path = tmp_path / f"data.{extension}"
    WRITERS[extension](path, ODD, ODD)
    texts = stream(str(path), text="text")
    assert list(texts()) == list(texts()) == ODD


@pytest.mark.parametrize("extension", ["csv", "csv.zip", "tsv.gz", "jsonl", "jsonl.bz2", "parquet"])
def test_a_stream_takes_no_more_memory_for_more_rows(tmp_path, extension):
    path = tmp_path / f"data.{extension}"
    WRITERS[extension](path, ["some words " * 40] * 10_000, ["a"] * 10_000)
    tracemalloc.start()
    for _ in stream(str(path), text="text")():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6 < 10_000 * 440


@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl", "parquet"])
@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_no_cell_changes_on_its_way_through_a_file(tmp_path_factory, extension, rows):
    texts, labels = ([f"{cell}." for cell in column] for column in zip(*rows, strict=True))
    path = tmp_path_factory.mktemp("cells") / f"data.{extension}"
    WRITERS[extension](path, texts, labels)
    got = read(path)
    assert (got.texts, got.labels) == (texts, labels)


def test_extensions_in_capitals_and_paths_as_objects(tmp_path):
    path = tmp_path / "DATA.v2.CSV"
    path.write_text("text,label\na,b\n")
    assert read(path).texts == ["a"] and read(path).name == str(path)


def test_crlf_and_quoted_newlines(tmp_path):
    source = written(tmp_path, "d.csv", 'text,label\r\n"one\r\ntwo ""three""",x\r\nplain,y\r\n')
    assert read(source).texts == ['one\r\ntwo "three"', "plain"]
    assert read(source).labels == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", "text,label\na,b\n"),
        ("d.tsv", "text\tlabel\na\tb\n"),
        ("d.jsonl", '{"text":"a","label":"b"}'),
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path, name, content):
    assert read(written(tmp_path, name, b"\xef\xbb\xbf" + content.encode())).labels == ["b"]


def test_a_text_is_not_its_own_label(tmp_path):
    path = written(tmp_path, "d.csv", "text,label\na,x\nb,y\n")
    for text in ("label", "text,label"):
        with pytest.raises(InputError, match="the column 'label' is given as text and as label"):
            read(path, text=text)


def test_columns_are_chosen_by_name(tmp_path):
    source = written(tmp_path, "d.csv", "id,review text,stars\n1,fine,5\n")
    chosen = read(source, text="review text", label="stars")
    assert (chosen.texts, chosen.labels) == (["fine"], ["5"])


@pytest.mark.parametrize("extension", WRITERS)
def test_no_labels_wanted(tmp_path, extension):
    path = tmp_path / f"data.{extension}"
    WRITERS[extension](path, ["a"], [""])
    assert read(path, label=None).labels is None


def test_json_numbers_stay_as_written_and_booleans_become_strings(tmp_path):
    lines = [
        '{"text": 1, "label": 1.0}',
        '{"text": 1.10, "label": true}',
        "",
        '{"label": 12345678901234567890, "text": "a\u2028b"}',
    ]
    got = read(written(tmp_path, "d.jsonl", "\r\n".join(lines)))
    assert got.texts == ["1", "1.10", "a\u2028b"]
    assert got.labels == ["1.0", "True", "12345678901234567890"]


def test_parquet_numbers_booleans_and_categories_become_strings(tmp_path):
    columns = {
        "whole": pa.array([1, None]),
        "real": [1.0, 2.5],
        "truth": [True, False],
        "class": pa.array(["x", "y"]).dictionary_encode(),
        "a.b": ["p", "q"],
    }
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table(columns), path)
    assert read(path, text="real", label="truth").texts == ["1.0", "2.5"]
    assert read(path, text="real", label="truth").labels == ["True", "False"]
    assert read(path, text="a.b", label="class").labels == ["x", "y"]
    assert read(path, text="whole", label=None).texts == ["1", ""]  # and not "1.0", though a cell is missing


def test_parquet_columns_are_its_own_not_those_of_its_folders(tmp_path):
    (tmp_path / "label=3").mkdir()
    path = tmp_path / "label=3" / "d.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": ["b"]}), path)
    assert read(path).labels == ["b"]


def test_polarity_needs_no_download():
    polarity = read("builtin:polarity")
    assert len(polarity) == 200 and polarity.dropped == 0 and polarity.name == "builtin:polarity"
    assert {label: polarity.labels.count(label) for label in set(polarity.labels)} == {"neg": 100, "pos": 100}
    assert not any("__label__" in text or text != text.strip() for text in polarity.texts)
    # cp1252
    assert any("é" in text for text in polarity.texts) and any("—" in text for text in polarity.texts)
    assert "its columns are 'text', 'label'" in refused("builtin:polarity", text="review")


# Rows that are dropped, rows that are refused


def test_a_blank_line_of_a_single_column_is_a_row_that_answers_line_up_with(tmp_path):
    one = written(tmp_path, "one.csv", "\ntext\ngood\n\nbad\n\n\n")
    assert read(one, label=None).texts == ["good", "", "bad"]
    two = written(tmp_path, "two.csv", "text,label\ngood,1\n\nbad,0\n")
    assert read(two, label=None).texts == ["good", "bad"]


def test_a_column_that_stands_twice_is_refused_where_it_is_asked_for(tmp_path):
    source = written(tmp_path, "dup.csv", "text,label,text\ngood,a,ID-1\nbad,b,ID-2\n")
    assert "dup.csv has 2 columns 'text'; rename all but one." in refused(source)
    other = written(tmp_path, "ids.csv", "id,text,label,id\n1,good,a,2\n3,bad,b,4\n")
    assert read(other).texts == ["good", "bad"]


def test_fields_of_inner_objects_have_names_with_dots(tmp_path):
    lines = [{"id": 1, "body": {"text": "good"}, "meta": {"of": {"label": "pos"}}, "a.b": 1, "a": {"b": 2}}]
    lines.append({"id": 2, "body": {"text": "bad"}, "meta": {"of": {"label": "neg"}}, "a.b": 3})
    source = written(tmp_path, "nested.jsonl", "\n".join(map(json.dumps, lines)))
    got = read(source, text="body.text", label="meta.of.label")
    assert (got.texts, got.labels) == (["good", "bad"], ["pos", "neg"])
    assert read(source, text="body.text", label="a.b").labels == ["1", "3"]  # a field of its own is first


def test_fields_of_structures_in_parquet_have_names_with_dots(tmp_path):
    path = tmp_path / "d.parquet"
    inner = [{"text": "good", "of": {"label": "pos"}}, {"text": "bad", "of": None}, None]
    pq.write_table(pa.table({"id": [1, 2, 3], "body": inner, "stars": ["x", "y", "z"]}), path)
    assert read(path, text="body.text", label="stars").texts == ["good", "bad"]
    assert read(path, text="body.text", label="body.of.label").labels == ["pos"]
    assert "its columns are 'id', 'body.text', 'body.of.label', 'stars'" in refused(path, text="body")


@pytest.mark.parametrize(
    "content",
    [
        '{"text": "a", "label": 1, "text": "b"}\n{"text": "c", "label": 2}\n',
        '{"data": [{"text": "a", "label": 1, "text": "b"}]}',
        '[{"text": "a", "label": 1,\n"text": "b"}]',
    ],
)
def test_a_key_that_stands_twice_in_a_json_object_is_refused(content, tmp_path):
    assert "the key 'text' twice" in refused(written(tmp_path, "d.json", content))


def test_numbers_of_a_document_in_one_line_stay_as_written(tmp_path):
    document = '{"data": [{"text": "a", "label": 1.10}, {"text": "b", "label": 2.0}]}'
    assert read(written(tmp_path, "d.json", document)).labels == ["1.10", "2.0"]


@pytest.mark.parametrize("name", ["d.csv", "d.jsonl", "d.parquet", "d.xlsx", "d.csv.gz"])
def test_a_pointer_in_place_of_a_file_is_named(name, tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    assert "is a pointer of Git LFS in place of the file" in refused(written(tmp_path, name, pointer))


def test_quotes_of_a_tsv_that_quotes_nothing_are_characters(tmp_path):
    rows = 'text\tlabel\n"great" film\tpos\n"so he said\tneg\nmiddle\tpos\n"the end\tneg\nlast\tpos\n'
    got = read(written(tmp_path, "q.tsv", rows))
    assert got.texts == ['"great" film', '"so he said', "middle", '"the end', "last"]
    assert got.labels == ["pos", "neg", "pos", "neg", "pos"]
    quoted = written(tmp_path, "w.tsv", 'text\tlabel\n"one\nline"\tpos\n"a\ttab"\tneg\n')
    assert read(quoted).texts == ["one\nline", "a\ttab"]
    both = written(tmp_path, "v.tsv", 'text\tlabel\n"one\n\tline"\tpos\nlast\tneg\n')
    assert read(both).texts == ["one\n\tline", "last"]


def test_quotes_of_a_tsv_that_fit_neither_way_are_refused(tmp_path):
    swallowed = 'text\tlabel\n"so he said\tneg\nmiddle\tpos\n"\tneg\nlast\n'
    assert "row 2 has a quoted field with a tab and a line break in it" in refused(
        written(tmp_path, "s.tsv", swallowed)
    )
    both = 'text\tlabel\n"one\nline"\tpos\n"A" or "B"\tneg\n'
    assert "line 4: '\t' expected after '\"'" in refused(written(tmp_path, "b.tsv", both))


def test_texts_without_content_are_dropped_counted_and_named(tmp_path, caplog):
    source = written(tmp_path, "d.csv", 'text,label\na,1\n,2\n"  \t",3\n\u3000,4\n"\n",5\n,\nb,6\n')
    got = read(source)
    assert (got.texts, got.labels, got.dropped) == (["a", "b"], ["1", "6"], 5)
    assert caplog.record_tuples == [
        (
            "vnait",
            logging.WARNING,
            f"{source}: dropped 5 of 7 rows, whose text is empty: rows 3, 4, 5 and 2 more.",
        )
    ]


def test_what_nobody_can_see_is_no_text_and_no_label(tmp_path, caplog):
    unseen = ["\u200b", "\ufeff", "\u3164", "\xad\u200d", "\x00"]
    rows = [
        *((mark, "1") for mark in unseen),
        *(("a", f" {mark}") for mark in unseen),
        ("!", "1"),
        ("ㅋ", "2"),
    ]
    got = read(written(tmp_path, "e.csv", "text,label\n" + "".join(map("%s,%s\n".__mod__, rows))))
    assert (got.texts, got.labels) == (["!", "ㅋ"], ["1", "2"])
    assert "dropped 5 of 12 rows, whose text is empty" in caplog.text
    assert labels_in("crime|\u200b|drama|\ufeff") == ["crime", "drama"]


def test_without_labels_every_row_is_kept_so_that_a_prediction_lines_up(tmp_path, caplog):
    source = tmp_path / "t.csv"
    source.write_text('text\na\n" "\nb\n', encoding="utf-8")
    got = read(str(source), label=None)
    assert (got.texts, got.labels, got.dropped) == (["a", " ", "b"], None, 0)
    assert caplog.messages == [f"{source}: 1 of 3 rows have an empty text: row 3."]


def test_one_dropped_row_is_reported_in_the_singular(tmp_path, caplog):
    read(written(tmp_path, "d.jsonl", '{"text": null, "label": 1}\n{"text": "a", "label": 1}\n'))
    assert caplog.messages[0].endswith("dropped 1 of 2 rows, whose text is empty: row 1.")


def test_nothing_is_logged_when_nothing_is_dropped(tmp_path, caplog):
    read(written(tmp_path, "d.csv", "text,label\na,b\n"))
    assert not caplog.messages


def test_labels_that_look_the_same_stay_as_written_with_a_warning(tmp_path, caplog):
    source = written(tmp_path, "d.csv", "text,label\na,pos\nb,pos \nc,Pos\nd,neg\n")
    assert read(source).labels == ["pos", "pos ", "Pos", "neg"]
    assert caplog.messages == [
        f"{source}: the labels 'Pos' (1), 'pos' (1), 'pos ' (1) differ only in spaces, capitals, invisible "
        "characters, the width of letters or how a number is written, and count as different classes; "
        "--merge-labels (merge_labels=True in Python) makes one of them."
    ]


def test_no_text_at_all(tmp_path):
    assert "all 2 rows are empty in the text column" in refused(
        written(tmp_path, "d.csv", "text,label\n,1\n ,2\n")
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", "text,label\na,1\nb,\nc\nd, \ne,\nf,2\n"),
        (
            "d.jsonl",
            '{"text":"a","label":1}\n\n{"text":"b","label":null}\n{"text":"c"}\n{"text":"d","label":NaN}\n{"text":"e","label":""}\n'
            '{"text":"f","label":2}',
        ),
    ],
)
def test_rows_without_a_label_are_dropped_counted_and_named(tmp_path, name, content, caplog):
    path = written(tmp_path, name, content)
    table, tests = read(path), read(path, of_tests=True)
    assert (table.texts, table.labels, table.dropped) == (["a", "f"], ["1", "2"], 4)
    numbers = "3, 4, 5" if name == "d.csv" else "2, 3, 4"  # the header is a row of a table, too
    rows = f"rows {numbers} and 1 more."
    learned = "4 of 6 rows have no label; at most words are learned from them"
    assert f"{name}: {learned}: {rows}" in caplog.text
    assert f"{name}: dropped 4 of 6 rows, which have no label: {rows}" in caplog.text
    assert table.more == table.select([1]).more == list("bcde")
    assert tests == replace(table, more=[]) and tests.fingerprint != table.fingerprint


def test_a_missing_label_in_parquet(tmp_path, caplog):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"text": ["a", "b", "c"], "label": [1.0, float("nan"), None]}), path)
    assert read(path).texts == ["a"] and "2 of 3 rows have no label" in caplog.text


def test_no_label_at_all(tmp_path):
    message = refused(written(tmp_path, "d.csv", "text,label\na,\nb, \n,x\n"))
    assert "no label in any of its 2 rows with a text" in message and "label=None" in message


def test_labels_that_hardly_repeat_are_no_classes(tmp_path):
    rows = "\n".join(f"text {row},2026-01-{row:02}" for row in range(1, 29))
    message = refused(written(tmp_path, "d.csv", f"text,label\n{rows}\n"))
    assert "the column 'label' has 28 different labels in 28 rows, such as '2026-01-01'" in message
    pairs = "\n".join(f"text {row},class {row % 14}" for row in range(28))  # two rows per class are enough
    assert len(read(written(tmp_path, "e.csv", f"text,label\n{pairs}\n"))) == 28
    assert len(read(written(tmp_path, "f.csv", "text,label\na,1\nb,2\n"))) == 2


# Files as programs write them


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.txt"])
def test_the_separator_is_found_in_the_file(tmp_path, separator, name, caplog):
    caplog.set_level("INFO", logger="vnait")
    rows = [["text", "label"], ["so, it; is | fine", "pos"], ["a", "neg"]]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator).writerows(rows)
    table = read(written(tmp_path, name, buffer.getvalue()))
    assert (table.texts, table.labels) == (["so, it; is | fine", "a"], ["pos", "neg"])
    usual = {"d.csv": ",", "d.tsv": "\t", "d.txt": "\t"}[name]
    assert ("the fields are separated by" in caplog.text) == (separator != usual)


def test_a_separator_of_the_text_is_not_taken_for_the_tables(tmp_path):
    one = written(tmp_path, "d.csv", "text\none; two; three\nfour; five; six\n")
    assert read(one, label=None).texts == ["one; two; three", "four; five; six"]
    decimal = written(tmp_path, "e.csv", "text;label;score\ngood;pos;1,5\nbad;neg;2,5\n")
    assert read(decimal).texts == ["good", "bad"]
    named = written(tmp_path, "f.csv", "sep=;\ntext;label\ngood;pos\n")
    assert read(named).texts == ["good"]


def test_a_separator_may_be_given(tmp_path):
    source = written(tmp_path, "d.csv", "text,label;text|label\n")
    with pytest.raises(InputError, match="the separator ':' is not known; give one of"):
        read(source, sep=":")
    odd = written(tmp_path, "e.csv", "text|label,other\na|b,c\n")
    assert read(odd, sep="|", label=None).texts == ["a"]
    assert read(written(tmp_path, "f.csv", "text\tlabel\na\tb\n"), sep="tab").texts == ["a"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_gives_the_encoding(tmp_path, encoding):
    source = written(tmp_path, "d.csv", "text,label\ncafé 好,pos\n".encode(encoding))
    assert read(source).texts == ["café 好"]
    big = written(tmp_path, "e.csv", codecs.BOM_UTF16_BE + "text,label\ncafé,pos\n".encode("utf-16-be"))
    assert read(big).texts == ["café"]


def test_chinese_text_is_offered_gb18030_and_read_with_it(tmp_path):
    source = written(
        tmp_path, "d.csv", "text,label\n物流很快，包装很好,pos\n几天就用不了了,neg\n".encode("gb18030")
    )
    assert "add --encoding gb18030" in refused(source)
    assert read(source, encoding="gb18030").texts == ["物流很快，包装很好", "几天就用不了了"]


def test_a_workbook_named_as_a_csv_is_recognized(tmp_path):
    assert "is a zip archive; if it is an Excel workbook" in refused(
        written(tmp_path, "d.csv", b"PK\x03\x04rest")
    )


def test_windows_text_is_offered_its_encoding_and_read_with_it(tmp_path):
    source = written(tmp_path, "d.csv", "text,label\ncafé – “good”,pos\n".encode("cp1252"))
    assert "add --encoding cp1252" in refused(source)
    assert read(source, encoding="cp1252").texts == ["café – “good”"]
    assert "there is no encoding 'klingon'" in refused(source, encoding="klingon")
    bare = written(tmp_path, "e.csv", "text,label\nplain,pos\n".encode("utf-16-le"))
    assert "--encoding utf-16-le" in refused(bare)
    assert read(bare, encoding="utf-16-le").texts == ["plain"]
    for name, text in product(["utf-16-be", "utf-32-le", "utf-32-be"], ["plain", "größer"]):
        bare = written(tmp_path, "f.csv", f"text,label\n{text},pos\n".encode(name))
        assert f"--encoding {name}" in refused(bare)
        assert read(bare, encoding=name).texts == [text]


def test_columns_are_found_without_regard_to_case_and_space(tmp_path):
    assert read(written(tmp_path, "d.csv", "Text , LABEL\na,b\n")).labels == ["b"]
    both = written(tmp_path, "e.csv", "text,TEXT,label\na,b,c\n")
    assert read(both).texts == ["a"] and "Did you mean 'text' or 'TEXT'?" in refused(both, text="Text")
    assert "Did you mean 'review'?" in refused(
        written(tmp_path, "f.csv", "review,label\na,b\n"), text="reviw"
    )


def test_an_excel_workbook(tmp_path, caplog):
    openpyxl = pytest.importorskip("openpyxl")
    caplog.set_level("INFO", logger="vnait")
    book = openpyxl.Workbook()
    for row in (["text", "label"], ["good", 1], ["bad", 2.0], [None, None], [3, 2]):
        book.active.append(row)
    book.create_sheet("notes").append(["other"])
    book.save(tmp_path / "d.xlsx")
    table = read(tmp_path / "d.xlsx")
    assert (table.texts, table.labels) == (["good", "bad", "3"], ["1", "2", "2"])
    assert "read its first sheet, 'Sheet', of 2" in caplog.text
    book = openpyxl.Workbook(write_only=True)  # it stores no width, so a row ends with its last cell
    for row in (["text", "label"], ["good", 1], ["bad"], ["fine", 1]):
        book.create_sheet() if not book.sheetnames else None
        book.worksheets[0].append(row)
    book.save(tmp_path / "short.xlsx")
    assert read(tmp_path / "short.xlsx").texts == ["good", "fine"]
    book = openpyxl.Workbook()
    for row in ([], ["text", "label"], ["good", time(9, 30)], [], ["bad", time(17)], []):
        book.active.append(row)
    book.save(tmp_path / "gaps.xlsx")
    assert list(stream(str(tmp_path / "gaps.xlsx"), text="text")()) == ["good", "", "bad"]
    assert read(tmp_path / "gaps.xlsx").labels == ["09:30:00", "17:00:00"]
    book = openpyxl.Workbook()
    for row in (["text", "label"], ["two_x000D_\nlines", "a_x_b"], ["x_y", "b"]):
        book.active.append(row)
    book.save(tmp_path / "codes.xlsx")
    assert read(tmp_path / "codes.xlsx").texts == ["two\r\nlines", "x_y"]
    assert "save it as .xlsx or .csv" in refused(written(tmp_path, "d.xls", "x"))
    assert "can't be read as an Excel workbook" in refused(written(tmp_path, "e.xlsx", "x"))


def test_a_cell_far_from_the_others_takes_no_memory(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for place, cell in (("A1", "text"), ("A2", "good"), ("XFD30000", "x")):  # a rectangle of 491,520,000
        book.active[place] = cell
    book.save(tmp_path / "far.xlsx")
    tracemalloc.start()
    assert list(stream(str(tmp_path / "far.xlsx"), text="text")())[:2] == ["good", ""]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e7


def test_a_json_array_of_objects(tmp_path):
    array = '[\n{"text": "a", "label": 1},\n{"text": "b", "label": 1.10}\n]'
    for start in ("[\n{", "[{", "[ {", "[ \n{", "[\r\n{"):  # as tools and systems write it
        assert read(written(tmp_path, "d.json", array.replace("[\n{", start, 1))).labels == ["1", "1.10"]
    assert "element 2 is not a JSON object" in refused(written(tmp_path, "e.json", '[{"text": "a"}, 3]'))
    assert "is not JSON: " in refused(written(tmp_path, "f.json", '[{"text": "a"}'))


def test_a_file_is_refused_before_torch_is_loaded(tmp_path):
    source = written(tmp_path, "d.csv", "text,label\na,b\n")
    for arguments in (["nowhere.csv"], [str(source), "--text", "txt"], [str(source), "--shots", "few"]):
        code = (
            "import sys\nfrom vnait.cli import main\n"
            f"try:\n    main(['compare', *{arguments!r}])\n"
            "except SystemExit as end:\n    print(end.code, 'torch' in sys.modules)"
        )
        assert python(code).split() == ["2", "False"]


# What can't be read


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "d.csv")
    assert "is a pipe, and a table is read more than once" in refused(tmp_path / "d.csv")


def test_missing_file_and_folder_and_extension(tmp_path):
    assert "there is no file nowhere.csv" in refused("nowhere.csv")
    assert f"{tmp_path} is a folder" in refused(str(tmp_path)) and f"hf:{tmp_path}" in refused(str(tmp_path))
    known = (
        ".csv, .txt, .tsv, .jsonl, .json, .parquet, .xlsx, .xlsm, .xls, .ods. The first 5 may be packed: "
        ".gz, .bz2, .xz, .zip, .zst"
    )
    assert f"ends in .odt; expected one of {known}." in refused(written(tmp_path, "d.odt", "x"))
    assert "ends in .xlsx.zip; expected" in refused(written(tmp_path, "d.xlsx.zip", "x"))
    assert "add --task tagging" in refused(written(tmp_path, "d.conllu", "x"))
    assert "ends in .parquet.gz; expected" in refused(written(tmp_path, "d.parquet.gz", "x"))
    assert "ends in no extension" in refused(written(tmp_path, "data", "x"))
    assert (
        "there is no builtin:reviews; give builtin:splice, builtin:splice-test or builtin:polarity"
        in refused("builtin:reviews")
    )


def test_split_belongs_to_hf_alone(tmp_path):
    message = refused(written(tmp_path, "d.csv", "text,label\na,b\n"), split="test")
    assert "split='test'" in message and "leave split out" in message


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.jsonl"])
@pytest.mark.parametrize("content", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_empty_file(tmp_path, name, content):
    assert "d." in refused(written(tmp_path, name, content)) and "is empty" in refused(
        written(tmp_path, name, content)
    )


@pytest.mark.parametrize("name", ["d.csv", "d.tsv"])
def test_header_only(tmp_path, name):
    header = "text,label" if name == "d.csv" else "text\tlabel"
    assert "has no rows below its header" in refused(written(tmp_path, name, header))
    assert "has no rows below its header" in refused(written(tmp_path, name, header + "\r\n\r\n"))


def test_parquet_without_rows(tmp_path):
    pq.write_table(
        pa.table({"text": pa.array([], pa.string()), "label": pa.array([], pa.string())}),
        tmp_path / "d.parquet",
    )
    assert "has no rows" in refused(tmp_path / "d.parquet")


@pytest.mark.parametrize("extension", WRITERS)
def test_a_wrong_column_lists_those_there_are(tmp_path, extension):
    path = tmp_path / f"data.{extension}"
    WRITERS[extension](path, ["a"], ["b"])
    assert "has no column 'review'; its columns are " in refused(path, text="review")
    assert "'text', 'label'. Name the columns with --text" in refused(path, text="review")
    assert "has no column 'stars'" in refused(path, label="stars")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"text,label\nfine,a\ncaf\xe9,b\n", 3),
        (b"text,label\r\nfine,a\r\ncaf\xe9,b\r\n", 3),
        (b"text,label\n\xe9,b\n", 2),
        (b'text,label\n"two\nlines",a\n\xe9,b\n', 4),
    ],
)
@pytest.mark.parametrize("name", ["d.csv", "d.jsonl"])
def test_broken_utf8_names_the_line(tmp_path, name, content, line):
    message = refused(written(tmp_path, name, content))
    assert f"is not UTF-8: line {line} has the byte 0xe9" in message
    assert "add --encoding cp1252" in message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("text,label\nhello, world,pos\n", "line 2 has 3 fields, and the header 2"),
        ("text,label\nhello, world,pos\nlater, too,pos\n", "line 2 has 3 fields, and the header 2"),
        ("text,label\na,b\nhello, world,pos\n", "line 3 has 3 fields, and the header 2"),
        ('text,label\na,b\n"never closed,b\nc,d\n', "the quote in line 3 never ends"),
        ('text,label\na,b\n"A" or "B",c\n', "line 3: ',' expected after '\"'"),
    ],
)
def test_the_error_of_malformed_csv_has_its_line(tmp_path, content, reason):
    message = refused(written(tmp_path, "d.csv", content))
    assert f"d.csv is malformed, read as fields separated by a comma: {reason}. A field with" in message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "a", "label": }', "is not JSON: Expecting value"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('["a", "b"]', "is not a JSON object"),
        ('"a"', "is not a JSON object"),
    ],
)
def test_malformed_json_names_the_line(tmp_path, line, problem):
    message = refused(written(tmp_path, "d.jsonl", f'{{"text": "a", "label": "b"}}\n\n{line}\n'))
    assert f"d.jsonl, line 3 {problem}" in message
    assert "expected one JSON object per line, or an array of objects." in message


def test_a_cell_that_is_no_text(tmp_path):
    source = written(tmp_path, "d.jsonl", '{"text": "a", "label": 1}\n{"text": ["b"], "label": {"c": 1}}\n')
    assert "row 2, column 'text' has a value of type list; expected text or a number" in refused(source)
    message = refused(source, text="label", label=None)
    assert "row 2, column 'label' has a value of type dict" in message and "as in NAME.c." in message
    pq.write_table(pa.table({"text": [b"bytes"]}), tmp_path / "d.parquet")
    assert "row 1, column 'text' has a value of type bytes" in refused(tmp_path / "d.parquet", label=None)


def test_half_an_emoji(tmp_path):
    source = written(
        tmp_path, "d.jsonl", '{"text": "\\ud83d\\ude00", "label": 1}\n{"text": "\\ud83d", "label": 1}\n'
    )
    assert "row 2, column 'text' contains a lone surrogate" in refused(source)


@pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing of the kind PAR1"])
def test_unreadable_parquet(tmp_path, content):
    assert "d.parquet can't be read as Parquet: " in refused(written(tmp_path, "d.parquet", content))


@pytest.mark.parametrize(
    "content", [b"text,label\n", gzip.compress(b"text,label\na,b\n" * 99, mtime=0)[:-20]]
)
def test_broken_gzip(tmp_path, content):
    message = refused(written(tmp_path, "d.csv.gz", content))
    assert "d.csv.gz can't be read: " in message


@pytest.mark.parametrize("packing", ["bz2", "xz", "zip"])
def test_broken_packings(tmp_path, packing):
    packed = {"bz2": bz2.compress, "xz": lzma.compress, "zip": bytes}[packing](b"text,label\na,b\n" * 99)
    for content in (b"text,label\n", packed[:-9], b""):
        assert f"d.csv.{packing} " in refused(written(tmp_path, f"d.csv.{packing}", content))


@pytest.mark.parametrize("packing", ["gz", "bz2", "xz", "zip"])
def test_what_is_packed_is_not_unpacked_beyond_the_limit(tmp_path, packing, monkeypatch):
    path = tmp_path / f"d.csv.{packing}"
    frame(["a" * 3_000_000], ["b"]).to_csv(path, index=False)
    monkeypatch.setenv("VNAIT_UNPACK_LIMIT", "0.002")
    assert path.stat().st_size < 5_000 and "unpacks to more than 0.002 GiB" in refused(path)


def test_short_lines_of_a_packed_table_are_refused_before_they_are_rows(tmp_path, monkeypatch):
    path = tmp_path / "d.csv.xz"
    path.write_bytes(lzma.compress(b"text,label\n" + b"a,b\n" * 20_000))
    assert len(read(path)) == 20_000
    monkeypatch.setenv("VNAIT_UNPACK_LIMIT", "0.001")
    monkeypatch.setattr(formats, "rows_of", None)
    assert "unpacks to more than 0.001 GiB" in refused(path)


def test_a_zip_archive_has_one_table(tmp_path):
    path = tmp_path / "d.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("d.csv", "text,label\na,b\n")
        archive.writestr("__MACOSX/._d.csv", "x")
        archive.writestr("films/.DS_Store", "x")
    assert read(path).labels == ["b"]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("e.csv", "text,label\na,b\n")
    assert "can't be read: it has 2 files; unpack it" in refused(path)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def forbidden(self, *_):
        raise PermissionError(13, "Permission denied")

    source = written(tmp_path, "d.csv", "text,label\na,b\n")
    monkeypatch.setattr(Path, "open", forbidden)
    assert "d.csv can't be read: [Errno 13] Permission denied. " in refused(source)


# Data sets of the hub, here as local folders


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "reviews"
    place.mkdir()
    (place / "train.jsonl").write_text('{"text": "好 a", "label": 1}\n{"text": "b", "label": 0}\n')
    (place / "test.jsonl").write_text('{"text": "c", "label": 1}\n')
    return place


def test_hf_reads_a_local_folder_and_a_split_of_it(folder):
    assert read(f"hf:{folder}") == Table(
        texts=["好 a", "b"], labels=["1", "0"], name=f"hf:{folder}", dropped=0
    )
    assert read(f"hf:{folder}", split="test").texts == ["c"]


def test_hf_configurations(folder):
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files: train.jsonl\n- config_name: other\n  data_files: "
        "test.jsonl\n---\n"
    )
    assert read(f"hf:{folder}:other").texts == ["c"]
    assert read(f"hf:{folder}:main").texts == ["好 a", "b"]
    assert "BuilderConfig 'third' not found" in refused(f"hf:{folder}:third")


def test_hf_classes_become_their_names(folder):
    (folder / "README.md").write_text(
        "---\ndataset_info:\n  features:\n  - name: text\n    dtype: string\n  - name: label\n    dtype:\n"
        "      class_label:\n        names:\n          '0': bad\n          '1': good\n---\n"
    )
    assert read(f"hf:{folder}").labels == ["good", "bad"]
    (folder / "test.jsonl").write_text('{"text": "c", "label": -1}\n{"text": "d", "label": null}\n')
    assert "no label in any of its 2 rows" in refused(f"hf:{folder}", split="test")
    assert read(f"hf:{folder}", split="test", label=None).texts == ["c", "d"]


def test_hf_refusals_are_one_sentence_each(folder):
    assert "has no column 'review'; its columns are 'text', 'label'" in refused(f"hf:{folder}", text="review")
    message = refused(f"hf:{folder}", split="dev")
    assert "(split 'dev') could not be loaded: Unknown split" in message and "Check the name" in message
    assert "could not be loaded: Couldn't find any data file" in refused(f"hf:{folder}/nowhere")


@pytest.mark.parametrize("error", [ConnectionError("Couldn't reach\n'a/b' on the Hub."), RuntimeError()])
def test_hf_without_a_network(monkeypatch, error):
    def offline(*_, **__):
        raise error

    monkeypatch.setattr(datasets, "load_dataset", offline)
    message = refused("hf:a/b")
    said = "Couldn't reach 'a/b' on the Hub" if str(error) else "RuntimeError"
    assert message.startswith(f"hf:a/b (split 'train') could not be loaded: {said}. ")
    assert "give a local file" in message


# The import


def test_the_import_loads_nothing_heavy():
    heavy = {"pandas", "transformers", "tokenizers", "datasets", "pyarrow", "gensim", "jieba", "sklearn"}
    code = f"import sys, vnait.data; print(sorted({heavy} & set(sys.modules)))"
    assert python(code).strip() == "[]"


def test_a_separator_at_the_end_of_a_line_adds_no_field(tmp_path):
    table = read(written(tmp_path, "d.csv", "text,label\ngood,pos,\nbad,neg,,\n"))
    assert (table.texts, table.labels) == (["good", "bad"], ["pos", "neg"])


@pytest.mark.parametrize(("text", "label"), [("label", "Label"), ("TEXT", "text"), ("text, Label", "label ")])
def test_a_column_in_another_case_is_no_other_column(text, label, tmp_path):
    (tmp_path / "films.csv").write_text("Text,Label\ngood,pos\nbad,neg\n")
    with pytest.raises(InputError, match="is given as text and as label; a model would read its answer"):
        read(tmp_path / "films.csv", text=text, label=label)


def test_labels_of_test_rows_may_all_differ(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text("text,label\n" + "".join(f"text {row},class {row}\n" for row in range(30)))
    with pytest.raises(InputError, match="labels must repeat"):
        read(path)
    assert len(read(path, of_tests=True)) == 30


def test_packed_bytes_under_the_name_of_a_csv_are_named(tmp_path):
    path = tmp_path / "films.csv"
    path.write_bytes(gzip.compress(b"text,label\ngood,pos\n"))
    with pytest.raises(InputError, match=r"films\.csv is a gzip file; name it \.gz\."):
        read(path)
    path.write_bytes(b"PAR1" + bytes(20))
    with pytest.raises(InputError, match=r"films\.csv is a Parquet file; name it \.parquet\."):
        read(path)


def test_utf_32_is_read_by_its_byte_order_mark(tmp_path):
    path = tmp_path / "films.csv"
    path.write_bytes("text,label\ngood,pos\nbad,neg\n".encode("utf-32"))
    assert read(path).labels == ["pos", "neg"]


def test_groups_are_a_column_of_the_complete_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label,Author\ngood,1,ann\n,1,\nbad,0, bob \nfine,1,bob\n")
    table = read(path, group="author")
    assert table.groups == ["ann", "bob", "bob"] and table.select([2, 0]).groups == ["bob", "ann"]
    assert read(path).groups is None
    path.write_text("text,label,author\ngood,1,ann\nbad,0,\n")
    with pytest.raises(InputError, match="row 3: the column 'author' is empty, and every row needs"):
        read(path, group="author")
    with pytest.raises(InputError, match="sentences of words have no column of groups"):
        read(path, group="author", task="tagging")
