"""Write a folder of tests/golden: everything that this version saves, with the numbers that its models give.

    python tests/golden/make.py tests/golden/format_9

Run it only when a new format is added, from the commit that writes the format, into a folder with the
format's number; `tests/test_golden.py` then checks that later versions still read it.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import vnait
from vnait.data import Table
from vnait.data.vectors import Vectors, save
from vnait.pretrained import save_adapter
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.run import Run

TEXTS = [
    "a warm and funny film",
    "a dull film from start to finish",
    "funny , warm and good",
    "dull , slow and bad",
] * 6
TABLE = Table(texts=TEXTS, labels=["good", "bad", "good", "bad"] * 6, name="golden", dropped=0)
WORDS = sorted({word for text in TEXTS for word in text.split()})
QUESTIONS = ["a dull film", "warm", "slow and funny"]
IDS = torch.tensor([[2, 5, 6, 7, 8, 3]])


def main(out: Path) -> None:
    out.mkdir()
    expected: dict[str, object] = {"asked": QUESTIONS}
    vectors = np.random.default_rng(0).standard_normal((len(WORDS), 12)).astype(np.float32)
    save(Vectors(WORDS, vectors, "golden"), out / "vectors.txt")
    classifier = vnait.TextClassifier("vnait", steps=12, vectors=str(out / "vectors.txt"))
    classifier.fit(TEXTS, TABLE.labels).save(out / "vnait")
    expected["vnait"] = classifier.predict_proba(QUESTIONS).tolist()
    base = out / "tiny_bert"
    save_base(base)
    run = Run(base=str(base), method="vnait", steps=6, max_length=24, learning_rate=1e-3)
    fitted = fit(run, TABLE, Base.load(str(base)))
    fitted.save(out / "fine_tuned")
    expected["fine_tuned"] = fitted.probabilities(QUESTIONS).tolist()
    expected["adapter"] = save_random_adapter(base, out / "adapter")
    vnait.compare(
        TABLE,
        methods=("none", "vnait"),
        seeds=2,
        steps=6,
        vectors=str(out / "vectors.txt"),
        out=out / "comparison",
        jobs=1,
    )
    shutil.rmtree(out / "comparison" / "model")
    records = map(json.loads, (out / "comparison" / "records.jsonl").read_text().splitlines())
    expected["comparison"] = {f"{r['method']} {r['seed']}": r["metrics"]["accuracy"] for r in records}
    (out / "expected.json").write_text(json.dumps(expected) + "\n")


def save_base(folder: Path) -> None:
    """A tiny random BERT with a tokenizer of the words above."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(WORDS) + 5, max_position_embeddings=32, **sizes)).save_pretrained(
        folder
    )
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: index for index, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True)
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


@torch.no_grad()
def save_random_adapter(base: Path, folder: Path) -> list[list[float]]:
    """An adapter with random weights, as after training; the states of one text."""
    model = BertModel.from_pretrained(base).eval()
    vnait.attach(model, "vnait")
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "vnait" in name.split(".") and parameter.requires_grad:
            parameter += 0.1 * torch.randn_like(parameter)
    save_adapter(model, folder)
    return model(input_ids=IDS, attention_mask=torch.ones_like(IDS)).last_hidden_state[0].tolist()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
