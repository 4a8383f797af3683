"""Seeded mutations of files, and the readers that must answer each with a result or one sentence.

python tests/attack/mutations.py 60000 7   # inputs, seed; prints a table: file, tried, read, refused, failed
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import math
import random
import re
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from vnait import data
from vnait.data import Table, vectors
from vnait.data import vocabulary as vocabulary
from vnait.positions.methods import METHODS
from vnait.positions.plugins import load_file
from vnait.pretrained import load_adapter
from vnait.pretrained.loading import from_pretrained
from vnait.results import report
from vnait.results.record import read
from vnait.shared.errors import InputError
from vnait.train import predict
from vnait.train.baselines import fit_baseline
from vnait.train.estimator import TextClassifier
from vnait.train.fitting import fit
from vnait.train.run import Run

GOLDEN = Path(__file__).parents[1] / "golden" / "format_9"
LONGEST = 60  # seconds for one file
TEXTS = ["a dull film", "a warm, funny film", 'naïve «quote» "x"', "好 电影", "long " * 30]

# Mutations


def of_bytes(content: bytes, draw: random.Random) -> bytes:
    """One to four changes of the bytes: flipped, cut, doubled, moved, or with something odd put in."""
    found = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(found) + 1)
        to = min(len(found), at + draw.choice([1, 1, 4, 16, 200]))
        kind = draw.randrange(7)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del found[at:to]
        elif kind == 2:
            found[at:at] = found[at:to] * draw.choice([1, 3])
        elif kind == 3:
            found[at:to] = draw.choice(ODD)
        elif kind == 4:
            found[at:to] = draw.randbytes(to - at)
        elif kind == 5:
            del found[at:]
        else:
            found[at:at] = draw.choice(ODD)
    return bytes(found)


ODD = [b"\0", b"\xff\xfe", b'"', b"'", b"\n", b"\r\n", b",,,,", b"\t", b"{", b"}", b"[", b"NaN", b"1e999"]
ODD += [b"-1", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"9" * 20, b"[" * 3000, b"null", b"\x1f\x8b\x08", b"sep=;"]
VALUES = [None, True, -1, 0, 3.5, 1e300, 10**8, 10**30, "x", "", [], {}, [1], [[]], {"a": 1}, "\ud800"]


def of_gzip(content: bytes, draw: random.Random) -> bytes:
    """A change of what is packed, or of the packed file."""
    if draw.random() < 0.3:
        return of_bytes(content, draw)
    return gzip.compress(of_bytes(gzip.decompress(content), draw), 1)


def of_zip(content: bytes, draw: random.Random) -> bytes:
    """A change of one of the files in the archive, or of the archive."""
    if draw.random() < 0.3:
        return of_bytes(content, draw)
    found = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(found, "w") as new:
        chosen = draw.choice(old.namelist())
        for name in old.namelist():
            new.writestr(name, of_bytes(old.read(name), draw) if name == chosen else old.read(name))
    return found.getvalue()


def of_packing(packing: Any) -> Callable[[bytes, random.Random], bytes]:
    """A change of what bz2 or lzma has packed, or of the packed file."""

    def change(content: bytes, draw: random.Random) -> bytes:
        if draw.random() < 0.3:
            return of_bytes(content, draw)
        return packing.compress(of_bytes(packing.decompress(content), draw))

    return change


def of_workbook(content: bytes, draw: random.Random) -> bytes:
    """Other numbers and names in the XML of a workbook, as of rows, cells, types and sheets."""
    if draw.random() < 0.4:
        return of_zip(content, draw)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        chosen = draw.choice([name for name in old.namelist() if name.endswith((".xml", ".rels"))])
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, _of_attributes(text, draw) if name == chosen else text)
    return made.getvalue()


def _of_attributes(text: bytes, draw: random.Random) -> bytes:
    places = [match.span(1) for match in re.finditer(rb'="([^"]*)"', text)]
    for start, end in sorted(draw.sample(places, min(len(places), draw.choice([1, 1, 3]))), reverse=True):
        text = text[:start] + draw.choice(ATTRIBUTES) + text[end:]
    return text


ATTRIBUTES = [b"", b"0", b"-1", b"1", b"4000000000", b"A1048577", b"XFE1", b"ZZZZ9", b"s", b"inlineStr", b"e"]
ATTRIBUTES += [
    b"b",
    b"d",
    b"hidden",
    b"veryHidden",
    b"A1:XFD1048576",
    b"&#27;",
    b"rId99",
    b"../../x.xml",
    b"NaN",
]


def of_safetensors(content: bytes, draw: random.Random) -> bytes:
    """Another value, a key less or a key more in the header, which is JSON, or a change of bytes."""
    if draw.random() < 0.4:
        return of_bytes(content, draw)
    length = int.from_bytes(content[:8], "little")
    header = of_json(content[8 : 8 + length], draw)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def of_parquet(content: bytes, draw: random.Random) -> bytes:
    """A change in the last bytes, which hold the columns' types and places, in two thirds of the cases."""
    if draw.random() < 0.3:
        return of_bytes(content, draw)
    length = min(int.from_bytes(content[-8:-4], "little") + 8, len(content))
    footer = bytearray(content[-length:])
    for _ in range(draw.choice([1, 1, 3])):
        footer[draw.randrange(max(length - 8, 1))] = draw.randrange(256)
    return content[:-length] + bytes(footer)


def of_json(content: bytes, draw: random.Random) -> bytes:
    """Another value, a key less or a key more in a document; in a fifth of the cases a change of bytes."""
    if draw.random() < 0.2:
        return of_bytes(content, draw)
    lines = content.splitlines()
    if len(lines) > 1 and all(line.startswith(b"{") for line in lines):  # JSON lines
        at = draw.randrange(len(lines))
        return b"\n".join([*lines[:at], of_json(lines[at], draw), *lines[at + 1 :]]) + b"\n"
    try:
        document = json.loads(content)
    except ValueError:
        return of_bytes(content, draw)
    for _ in range(draw.choice([1, 1, 2])):
        document = _changed(document, draw)
    return json.dumps(document).encode() + b"\n" * content.endswith(b"\n")


def _changed(value: Any, draw: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or draw.random() < 0.1:
        return deepcopy(draw.choice(VALUES))  # later changes go into it
    key = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if draw.random() < 0.15:
        del value[key]
    elif isinstance(value, dict) and draw.random() < 0.05:
        value[draw.choice(["", "x", "attn_implementation", "auto_map"])] = deepcopy(draw.choice(VALUES))
    else:
        value[key] = _changed(value[key], draw)
    return value


CHANGES = {
    **{"json": of_json, "jsonl": of_json, "gz": of_gzip, "zip": of_zip, "xlsx": of_workbook},
    **{"bz2": of_packing(bz2), "xz": of_packing(lzma)},
    **{"safetensors": of_safetensors, "parquet": of_parquet},
}


def changer(file: str) -> Callable[[bytes, random.Random], bytes]:
    """The mutation for a file's ending."""
    return CHANGES.get(file.rpartition(".")[2], of_bytes)


# Readers


@dataclass(frozen=True, kw_only=True)
class Target:
    """A file to change and what reads it.

    make     folder -> writes what the reader needs;  file: the one that is changed, relative to the folder
    read     folder -> anything; InputError is the right answer to damage
    weight   its share of the inputs, since reading a model takes longer than reading a table
    """

    name: str
    make: Callable[[Path], object]
    file: str
    read: Callable[[Path], object]
    weight: int = 1


def rows() -> pd.DataFrame:
    """Twenty labelled rows with quotes, Chinese and a long text."""
    return pd.DataFrame({"text": TEXTS * 4, "label": ["good", "bad"] * 10, "score": [0.5, 1] * 10})


def table(ending: str, write: Callable[[Path], object]) -> Target:
    file = f"table.{ending}"
    return Target(
        name=file,
        make=lambda folder: write(folder / file),
        file=file,
        read=lambda folder: check_table(data.read(folder / file)),
        weight=100,
    )


def check_table(found: Table) -> None:
    assert found.labels is not None and len(found.texts) == len(found.labels) > 0
    assert all(text.strip() for text in found.texts) and "".join(found.texts).encode()


def vector_file(name: str) -> Target:
    made = vectors.Vectors(
        ["film", "dull", "warm"], np.arange(12, dtype=np.float32).reshape(3, 4) + 1, "made"
    )

    return Target(
        name=f"vectors {name}",
        make=lambda folder: vectors.save(made, folder / name),
        file=name,
        read=vectors_in(name),
        weight=100,
    )


def packed(packing: Any) -> Callable[[Path], object]:
    """Writes rows as CSV, packed by bz2 or lzma."""
    return lambda path: path.write_bytes(packing.compress(rows().to_csv(index=False).encode()))


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", rows().to_csv(index=False))


def categories(path: Path) -> None:
    """Parquet with dictionaries and a nested column, as data sets have."""
    frame = rows().astype({"text": "category", "label": "category"})
    frame["nested"] = [[{"a": [1, None]}]] * len(frame)
    frame.to_parquet(path)


def sheets(path: Path) -> None:
    """Three sheets, the second of them hidden, with numbers, dates and formulas."""
    with pd.ExcelWriter(path) as book:
        more = rows().assign(day=pd.Timestamp("2026-01-02"), sum="=1+1")
        more.to_excel(book, sheet_name="rows", index=False)
        pd.DataFrame({"notes": ["x"]}).to_excel(book, sheet_name="hidden", index=False)
        pd.DataFrame().to_excel(book, sheet_name="empty")
        book.book["hidden"].sheet_state = "hidden"


def tags() -> Target:
    """Words with tags, as a CoNLL-U file has them."""
    lines = "1\ta\t_\tDET\n2\tdull\t_\tADJ\n3\tfilm\t_\tNOUN\n\n"

    def read_tags(folder: Path) -> None:
        found = data.read(folder / "tags.conllu", text="FORM", label="UPOS", task="tagging")
        assert found.labels is not None and len(found.texts) == len(found.labels) > 0

    fields = "\t_" * 6
    text = re.sub(r"(?m)(\S)$", lambda match: match[1] + fields, lines * 6)
    return Target(
        name="tags.conllu",
        make=lambda folder: (folder / "tags.conllu").write_text(text),
        file="tags.conllu",
        read=read_tags,
        weight=60,
    )


def packed_vectors(name: str) -> Target:
    """A text file of vectors, with a phrase, in an archive or packed otherwise."""
    content = b"film 1 2 3 4\nnew_york 5 6 7 8\nwarm 9 10 11 12\n"

    def make(folder: Path) -> None:
        if name.endswith("zip"):
            with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("v.txt", content)
        else:
            (folder / name).write_bytes((bz2 if name.endswith("bz2") else lzma).compress(content))

    return replace(vector_file("v.txt"), name=f"vectors {name}", make=make, file=name, read=vectors_in(name))


def vectors_in(name: str) -> Callable[[Path], None]:
    def check(folder: Path) -> None:
        vectors.info(folder / name)
        found = vectors.load(folder / name)
        assert found.table.shape == (len(found.words), found.dim) and np.isfinite(found.table).all()

    return check


PLUGIN = b"""from dataclasses import replace
from vnait.positions.methods import METHODS as KNOWN
METHODS = {"mine": replace(KNOWN["none"], formula="x = e", source="here")}
"""


def plug(folder: Path) -> None:
    """A plugin's file; what it added is taken back."""
    before = dict(METHODS)
    try:
        load_file(folder / "plugin.py")
    finally:
        METHODS.clear()
        METHODS.update(before)


def golden(part: str) -> Callable[[Path], object]:
    return lambda folder: shutil.copytree(GOLDEN / part, folder, dirs_exist_ok=True)


def classify(folder: Path) -> None:
    found = predict.load(folder).probabilities(["a dull film", ""])
    assert np.isfinite(found).all() and np.allclose(found.sum(1), 1)


def estimate(folder: Path) -> None:
    TextClassifier.load(folder).predict(["a dull film"])


def adapt(folder: Path) -> None:
    from transformers import BertModel

    load_adapter(from_pretrained(BertModel, GOLDEN / "tiny_bert"), folder)


def baseline(folder: Path) -> None:
    made = Table(texts=TEXTS * 4, labels=["good", "bad"] * 10, name="made", dropped=0)
    words = vocabulary.learn(made.texts, dim=8)
    fit_baseline("tfidf", made, made, words, tokenization="words", seed=0).save(folder)


def stopped(folder: Path) -> None:
    """A training that was stopped after a checkpoint; its table, too."""
    resume(folder, after=2)


def resume(folder: Path, after: int | None = None) -> None:
    """Go on; from a damaged state it must not come to other weights."""
    made = Table(texts=TEXTS * 4, labels=["good", "bad"] * 10, name="made", dropped=0)
    words = vocabulary.learn(made.texts, dim=8)
    run = Run(method="none", steps=4, eval_every=2, batch_size=8, early_stopping=0, holdout=True, bag=0)

    def callback(status: Any) -> None:
        if after is not None and status.step > after:
            raise KeyboardInterrupt

    try:
        found = fit(run, made, words, checkpoints=folder, callback=callback).model.state_dict()
    except KeyboardInterrupt:
        return
    if not WHOLE:
        WHOLE.update(fit(run, made, words).model.state_dict())
    assert all(torch.equal(found[name], value) for name, value in WHOLE.items()), "other weights"


WHOLE: dict[str, torch.Tensor] = {}


def state(name: str) -> Target:
    # The one state of the stopped training; its key depends on nothing that changes here.
    with tempfile.TemporaryDirectory() as folder:
        stopped(Path(folder))
        (found,) = Path(folder).glob("*/step-*")
        inner = found.relative_to(folder)
        kept = {path.name: path.read_bytes() for path in found.iterdir()}

    def make(folder: Path) -> None:
        (folder / inner).mkdir(parents=True)
        for one, content in kept.items():
            (folder / inner / one).write_bytes(content)

    return Target(name=f"checkpoint {name}", make=make, file=str(inner / name), read=resume, weight=2)


def model(part: str, file: str, read_: Callable[[Path], object]) -> Target:
    return Target(name=f"{part}/{file}", make=golden(part), file=file, read=read_, weight=20)


CLASSIFIER = ("config.json", "tokenizer.json", "tokenizer_config.json", "record.json", "model.safetensors")
STATE = ("progress.json", "manifest.json", "model.safetensors", "optimizer.bin", "draws_0.safetensors")


def all_targets() -> list[Target]:
    """Every kind of file that the library reads."""
    frame = rows()
    return [
        table("csv", lambda path: frame.to_csv(path, index=False)),
        table("tsv", lambda path: frame.to_csv(path, index=False, sep="\t")),
        table("csv.gz", lambda path: path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))),
        table("jsonl", lambda path: frame.to_json(path, orient="records", lines=True)),
        table("json", lambda path: frame.to_json(path, orient="records")),
        table("parquet", lambda path: frame.to_parquet(path)),
        table("xlsx", lambda path: frame.to_excel(path, index=False)),
        table("csv.zip", zipped),
        table("csv.bz2", packed(bz2)),
        table("csv.xz", packed(lzma)),
        table("categories.parquet", categories),
        table("sheets.xlsx", sheets),
        tags(),
        *map(vector_file, ("v.bin", "v.txt", "v.bin.gz", "v.vec.gz")),
        *map(packed_vectors, ("v.txt.zip", "v.txt.bz2", "v.txt.xz")),
        Target(
            name="records.jsonl",
            make=golden("comparison"),
            file="records.jsonl",
            read=lambda folder: read(folder / "records.jsonl"),
            weight=60,
        ),
        model("comparison", "records.jsonl", report.write),
        model("comparison", "about.json", report.write),
        model("vnait", "estimator.json", estimate),
        *(model("vnait", file, classify) for file in CLASSIFIER),
        model("fine_tuned", "tuned.json", classify),
        *(model("adapter", file, adapt) for file in ("vnait.json", "vnait.safetensors")),
        Target(
            name="plugin.py",
            make=lambda folder: (folder / "plugin.py").write_bytes(PLUGIN),
            file="plugin.py",
            read=plug,
            weight=20,
        ),
        Target(
            name="baseline.json",
            make=baseline,
            file="baseline.json",
            read=classify,
            weight=10,
        ),
        *map(state, STATE),
    ]


# The run


@dataclass
class Tally:
    """What became of the inputs of one target."""

    name: str
    read: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.read + self.refused + len(self.failures)


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack(target: Target, count: int, seed: int = 0) -> Tally:
    """Read `count` mutations of the target's file; a result, or an InputError of one line, is right."""
    tally = Tally(target.name)
    with tempfile.TemporaryDirectory() as room:
        whole = Path(room) / "whole"
        whole.mkdir()
        target.make(whole)
        target.read(copy(whole, room))  # unchanged, it is read
        content = (whole / target.file).read_bytes()
        for number in range(count):
            draw = random.Random(f"{target.name} {seed} {number}")
            folder = copy(whole, room)
            (folder / target.file).write_bytes(changer(target.file)(content, draw))
            try:
                with at_most(LONGEST):
                    target.read(folder)
                tally.read += 1
            except InputError as error:
                if "\n" in str(error).strip():
                    tally.failures.append(f"{number}: not one line: {error}")
                else:
                    tally.refused += 1
            except Exception:
                tally.failures.append(f"{number}: {traceback.format_exc()}")
    return tally


def copy(whole: Path, room: str) -> Path:
    """A fresh copy of the folder, in the place of the last one."""
    folder = Path(room) / "changed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    return folder


def main(total: int = 60_000, seed: int = 0) -> int:
    """Attack every target by its weight; the exit code is 1 if anything failed."""
    warnings.simplefilter("ignore")
    import logging

    from transformers.utils.logging import disable_progress_bar

    logging.disable(logging.CRITICAL)
    disable_progress_bar()
    torch.set_num_threads(1)
    targets = all_targets()
    each = total / sum(target.weight for target in targets)
    print(f"{'file':38} {'tried':>7} {'read':>7} {'refused':>8} {'failed':>7}")
    sums = [0, 0, 0, 0]
    for target in targets:
        tally = attack(target, math.ceil(each * target.weight), seed)
        row = [tally.tried, tally.read, tally.refused, len(tally.failures)]
        sums = [one + other for one, other in zip(sums, row, strict=True)]
        print(f"{target.name:38} {row[0]:7,} {row[1]:7,} {row[2]:8,} {row[3]:7,}", flush=True)
        for failure in tally.failures[:3]:
            print(failure, file=sys.stderr)
    print(f"{'all':38} {sums[0]:7,} {sums[1]:7,} {sums[2]:8,} {sums[3]:7,}")
    return int(sums[3] > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
