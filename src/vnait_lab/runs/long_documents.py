"""Documents longer than a pretrained BERT's table of positions: cut at 512 tokens, or read to 2,048 by
another method.

    VNAIT_DATA=DIR python -m vnait_lab.runs.long_documents MODEL_FOLDER [--methods own,vnait] [--seeds 3]

A document is the first 120 words of a BBC News article at a random place among paragraphs of WikiText-2;
its class is the article's. Training documents have up to 512 tokens, so none is cut. There are three tests:
documents of about 1,900 tokens, of which `own` reads the first 512; the same 150 articles without
paragraphs; and whole BBC News articles longer than 512 tokens. The base needs no other method to read on by
windows of 512 tokens, of which the surest decides; this is measured, too. All in bfloat16, to save time.
DIR has bbc_news (train.csv, test.csv) and wikitext2 (train.txt, test.txt). Records go to
studies/records/long_documents; recorded runs are not repeated.
"""

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray

from vnait import data as texts
from vnait.positions.methods import BASE_POSITIONS
from vnait.results.record import Record
from vnait.shared.keys import key_of
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.logits import logits_of
from vnait.train.predict import Fitted
from vnait.train.run import Run
from vnait_lab.records import path_of
from vnait_lab.runs import accuracy, data_folder, parser, recorded, run_each
from vnait_lab.runs.fine_tuning import bfloat16, formula, of_base

SETTING = Run(steps=60, batch_size=8, learning_rate=1e-4, max_length=512, validation=0, early_stopping=0)
READ = 2048  # tokens, by attached methods
ARTICLE, SHORT, LONG = 120, 220, 1_250  # words: of an article, and around it in training and in the test
TESTED = 150


def train_and_test(base: Base, folder: Path, seed: int, shots: int, method: str) -> Record:
    """Fine-tune on documents of at most 512 tokens, and test on longer ones."""
    train, test = (texts.read(str(folder / "bbc_news" / f"{part}.csv")) for part in ("train", "test"))
    few = train.select(texts.shots(train.labels or [], count=shots, seed=seed))
    run = replace(SETTING, method=method, seed=seed, base=base.source)
    fitted = fit(run, surrounded(few, folder / "wikitext2" / "train.txt", SHORT, seed), base)
    reader = fitted if method == BASE_POSITIONS else replace(fitted, max_length=READ)
    articles = test.select(range(TESTED))
    long = surrounded(articles, folder / "wikitext2" / "test.txt", LONG, seed)
    whole = test.select(
        [i for i, ids in enumerate(base.encode(test.texts, max_length=READ)) if len(ids) > 512][:TESTED]
    )
    metrics = {
        "accuracy_alone": accuracy(
            fitted, replace(articles, texts=[first_words(text) for text in articles.texts])
        ),
        "accuracy_long": accuracy(reader, long),
        "accuracy_articles": accuracy(reader, whole),
        "accuracy_windows": accuracy(fitted, long, in_windows(fitted, base, long)),
    }
    record = recorded(fitted, metrics, name="bbc_news in wikitext2", shots=shots, articles=len(whole))
    return of_base(record, base)


def surrounded(articles: texts.Table, filler: Path, words: int, seed: int) -> texts.Table:
    """The first words of each article at a random place among `words` consecutive words of a text."""
    random = Random(seed)
    around = filler.read_text(encoding="utf-8").replace(" @-@ ", "-").split()
    documents = []
    for text in articles.texts:
        start, place = random.randrange(len(around) - words), random.randrange(words + 1)
        filling = around[start : start + words]
        documents.append(" ".join([*filling[:place], first_words(text), *filling[place:]]))
    return replace(articles, texts=documents)


def first_words(text: str) -> str:
    return " ".join(text.split()[:ARTICLE])


def in_windows(fitted: Fitted, base: Base, table: texts.Table) -> NDArray[np.float64]:
    """The largest probability of each class over a document's windows, which overlap by 32 tokens."""
    windows = base.tokenizer(
        table.texts, truncation=True, max_length=SETTING.max_length, stride=32, return_overflowing_tokens=True
    )
    probabilities = torch.softmax(logits_of(fitted.model, windows["input_ids"]).double(), -1).numpy()
    of = np.array(windows["overflow_to_sample_mapping"])
    return np.stack([probabilities[of == document].max(0) for document in range(len(table))])


def main() -> None:
    command = parser(__doc__, seeds=3, jobs=False, methods=("own", "vnait"), shots=(16,))
    command.add_argument("model", help="folder of the pretrained encoder")
    options = command.parse_args()
    folder = data_folder(command, "bbc_news and wikitext2")
    base = Base.load(options.model)
    fixed = {**SETTING.facts, "base": base.fingerprint}, (SHORT, LONG, ARTICLE, READ, TESTED), "bfloat16"

    def key(seed: int, shots: int, method: str) -> str:
        return key_of("long_documents", method, shots, seed, formula(method), *fixed)

    runs = product(range(options.seeds), options.shots, options.methods)
    with bfloat16():
        run_each(path_of("long_documents"), partial(train_and_test, base, folder), runs, key)


if __name__ == "__main__":
    main()
