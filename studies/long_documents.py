"""Documents longer than a pretrained BERT was born for: its own positions cut at 512 tokens against a method that reads 2,048.

    VNAIT_DATA=DIR python studies/long_documents.py MODEL_FOLDER [--methods own,vnait] [--shots 16] [--seeds 3]

A document is a BBC News article, its first 120 words, at a random place among paragraphs of WikiText-2; the class is the article's.
Trained on documents of up to 512 tokens, so nothing is cut there; tested on some 1,900 tokens, of which `own` reads the first 512, on
the same 150 articles without paragraphs, and on the real BBC News articles that are longer than 512 tokens, whole. What `own` can do
without another method is measured too: it reads a document in windows of 512 tokens, and the surest one decides.
All in bfloat16, for its time. DIR has bbc_news (train.csv, test.csv) and wikitext2 (train.txt, test.txt). Records go to
studies/records/long_documents.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import torch
from fine_tuning import bfloat16, formula, one_by_one
from numpy.typing import NDArray

from vnait import record as records
from vnait import text as texts
from vnait.bases import OWN, Base
from vnait.predict import Fitted, logits_of
from vnait.record import Record
from vnait.text import Table, read
from vnait.train import Run, fit

PATH = Path(__file__).parent / "records" / "long_documents" / "records.jsonl"
SETTING = Run(steps=60, batch_size=8, learning_rate=1e-4, max_length=512, validation=0, refit=0)
READ = 2048  # tokens, by methods that read on
ARTICLE, SHORT, LONG = 120, 220, 1_250  # words: of an article, and of what stands around it in training and in the test
TESTED = 150

Cell = tuple[str, int, int]  # method, shots, seed


def key(cell: Cell, base: Base) -> str:
    return records.key_of(
        "long_documents",
        *cell,
        formula(cell[0]),
        {**vars(SETTING), "base": base.fingerprint},
        (SHORT, LONG, ARTICLE, READ, TESTED),
        "bfloat16",
    )


def run_cell(cell: Cell, base: Base, data: Path) -> Record:
    method, shots, seed = cell
    train, test = (read(str(data / "bbc_news" / f"{part}.csv")) for part in ("train", "test"))
    few = train.select(texts.shots(train.labels or [], count=shots, seed=seed))
    run = replace(SETTING, method=method, seed=seed, base=base.source)
    fitted = fit(run, surrounded(few, data / "wikitext2" / "train.txt", SHORT, seed), base)
    assert fitted.record is not None
    reader = fitted if method == OWN else replace(fitted, max_length=READ)
    some = test.select(range(TESTED))
    long = surrounded(some, data / "wikitext2" / "test.txt", LONG, seed)
    whole = test.select(
        [i for i, ids in enumerate(base.encode(test.texts, max_length=READ)) if len(ids) > 512][:TESTED]
    )
    metrics = {
        "accuracy_alone": accuracy(fitted, replace(some, texts=[first_words(text) for text in some.texts])),
        "accuracy_long": accuracy(reader, long),
        "accuracy_articles": accuracy(reader, whole),
        "accuracy_windows": accuracy(fitted, long, in_windows(fitted, base, long)),
    }
    source = Path(base.source).name
    facts = {
        **fitted.record.data,
        "name": "bbc_news in wikitext2",
        "shots": shots,
        "articles": len(whole),
        "vectors": source,
    }
    run_facts = {**fitted.record.run, "base": source}
    return replace(fitted.record, key=key(cell, base), metrics=metrics, data=facts, run=run_facts)


def surrounded(articles: Table, filler: Path, words: int, seed: int) -> Table:
    """Each article's first words at an even place among `words` words of a text, which start anywhere in it."""
    random = Random(seed)
    around = filler.read_text(encoding="utf-8").replace(" @-@ ", "-").split()
    documents = []
    for text in articles.texts:
        start, place = random.randrange(len(around) - words), random.randrange(words + 1)
        some = around[start : start + words]
        documents.append(" ".join([*some[:place], first_words(text), *some[place:]]))
    return replace(articles, texts=documents)


def first_words(text: str) -> str:
    return " ".join(text.split()[:ARTICLE])


def in_windows(fitted: Fitted, base: Base, table: Table) -> NDArray[np.float64]:
    """The largest probability of each class in a document's windows, which overlap by 32 tokens."""
    windows = base.tokenizer(
        table.texts, truncation=True, max_length=SETTING.max_length, stride=32, return_overflowing_tokens=True
    )
    found = torch.softmax(logits_of(fitted.model, windows["input_ids"]).double(), -1).numpy()
    of = np.array(windows["overflow_to_sample_mapping"])
    return np.stack([found[of == document].max(0) for document in range(len(table))])


def accuracy(fitted: Fitted, table: Table, probabilities: NDArray[np.float64] | None = None) -> float:
    found = (fitted.probabilities(table.texts) if probabilities is None else probabilities).argmax(1)
    return float(np.mean([fitted.classes[one] == label for one, label in zip(found, table.labels or [], strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--methods", default="own,vnait")
    parser.add_argument("--shots", default="16")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    data = os.environ.get("VNAIT_DATA")
    if data is None:
        parser.error("VNAIT_DATA is not set; set it to a folder with bbc_news and wikitext2.")
    base = Base.load(options.model)
    cells = {
        key(cell, base): cell
        for seed in range(options.seeds)
        for shots in map(int, options.shots.split(","))
        for method in options.methods.split(",")
        for cell in [(method, shots, seed)]
    }

    with bfloat16():
        one_by_one(PATH, cells, lambda cell: run_cell(cell, base, Path(data)))


if __name__ == "__main__":
    main()
