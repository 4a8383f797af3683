"""Our own models in others' hands: pipelines, loading without an import, int8."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, pipeline

from vnait import InputError, VnaitConfig, VnaitForCausalLM
from vnait.data.tokens import encode, tokenizer, words
from vnait.model import VnaitForMaskedLM, VnaitForSequenceClassification, write_auto_map

TEXTS = [
    "A dull film, don't!",
    "我爱 film 北京。",
    "(one) two: 50% 3.14 a-b",
    "「日本語」が好き",
    "it's Anna's; rock 'n' roll",
    "สวัสดี hello",
    "##x [mask] y",
]


def made(tokenization: str = "words"):
    vocabulary = sorted({word for text in words(TEXTS, tokenization) for word in text})
    return tokenizer(vocabulary, tokenization=tokenization)


def saved(folder: Path, head: type, method: str, **settings: object) -> Path:
    torch.manual_seed(0)
    own = made()
    head(VnaitConfig(method=method, vocab_size=len(own), hidden_size=32, **settings)).save_pretrained(folder)
    own.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("tokenization", ["words", "characters", "jieba"])
def test_a_decoded_text_has_the_same_tokens(tokenization):
    own = made(tokenization)
    for text in TEXTS:
        ids = encode(own, [text], max_length=99)[0]
        assert encode(own, [own.decode(ids)], max_length=99)[0] == ids


def test_decoded_texts_are_spaced_as_they_are_written():
    own = made()
    for text in (
        "a dull film, don't!",
        "(one) two: 50%",
        "我爱 film 北京。",
        "「日本語」が好き",
        "it's anna's; roll",
    ):
        found = own.decode(encode(own, [text], max_length=99)[0])
        assert found == (text if text[0] in "我「" else f" {text}")
    letters = tokenizer(list("acgt"), tokenization="characters")
    assert letters.decode(encode(letters, ["ACGTTA"], max_length=9)[0]) == "acgtta"


def test_text_generation(tmp_path):
    write = pipeline("text-generation", model=str(saved(tmp_path, VnaitForCausalLM, "vnait-causal")))
    whole = write("A dull film, don't", max_new_tokens=4, do_sample=False)[0]["generated_text"]
    new = write("A dull film, don't", max_new_tokens=4, do_sample=False, return_full_text=False)
    own = made()
    prompt = encode(own, ["A dull film, don't"], max_length=99)[0]
    ids = write.model.generate(torch.tensor([prompt]), max_new_tokens=4, do_sample=False)[0].tolist()
    assert whole == "A dull film, don't" + own.decode(ids).removeprefix(" a dull film, don't")
    assert (
        new[0]["generated_text"] == whole.removeprefix("A dull film, don't") == own.decode(ids[len(prompt) :])
    )
    batch = write(["A dull film", "one two: a"], max_new_tokens=3, do_sample=False, batch_size=2)
    alone = [write(text, max_new_tokens=3, do_sample=False) for text in ("A dull film", "one two: a")]
    assert batch == alone


def test_fill_mask(tmp_path):
    fill = pipeline("fill-mask", model=str(saved(tmp_path, VnaitForMaskedLM, "vnait")))
    found = fill("a [MASK] film, 我爱", top_k=3, tokenizer_kwargs={"split_special_tokens": False})
    own = made()
    first, last = encode(own, ["a"], max_length=9)[0], encode(own, ["film, 我爱"], max_length=9)[0]
    ids = torch.tensor([[*first, own.mask_token_id, *last]])
    with torch.no_grad():
        expected = fill.model(ids).logits[0, 1].softmax(-1).topk(3)
    assert [answer["token"] for answer in found] == expected.indices.tolist()
    assert [answer["score"] for answer in found] == pytest.approx(expected.values.tolist(), abs=1e-6)
    assert found[0]["sequence"] == own.decode([*first, found[0]["token"], *last])


LOAD = """
import sys
from transformers import AutoModelForCausalLM, AutoModel, AutoConfig
folder, again = sys.argv[1:]
assert not any(name.startswith("vnait") for name in sys.modules)
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
from vnait.model import VnaitConfig, VnaitForCausalLM, VnaitModel
assert type(model) is VnaitForCausalLM and type(model.config) is VnaitConfig
assert type(AutoModel.from_pretrained(folder, trust_remote_code=True)) is VnaitModel
model.save_pretrained(again)
"""


@pytest.mark.long
def test_a_folder_loads_without_an_import_when_asked_for(tmp_path):
    folder, again = saved(tmp_path / "model", VnaitForCausalLM, "rope"), tmp_path / "again"
    assert not (folder / "vnait_auto.py").exists()
    assert "auto_map" not in json.loads((folder / "config.json").read_text())
    write_auto_map(folder)
    command = [sys.executable, "-W", "ignore", "-c", LOAD, str(folder), str(again)]
    environment = {"HF_HOME": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in again.glob("*.py")}
    assert names == {"vnait_auto.py"}  # and no copy of the library's source
    assert (again / "vnait_auto.py").read_text() == (folder / "vnait_auto.py").read_text()
    ids = torch.tensor([[3, 4, 5]])
    models = [AutoModelForCausalLM.from_pretrained(path).eval() for path in (folder, again)]
    assert torch.equal(models[0](ids).logits, models[1](ids).logits)


def test_an_auto_map_needs_a_model_of_this_package(tmp_path):
    with pytest.raises(InputError, match=r"has no config.json; give a folder of save_pretrained"):
        write_auto_map(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match=r"a model of the type 'bert', and only those of vnait need"):
        write_auto_map(tmp_path)
    assert not (tmp_path / "vnait_auto.py").exists()


@pytest.mark.parametrize("method", ["vnait", "rope", "alibi"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_int8_by_dynamic_quantization(method):
    """The linear layers, as PyTorch quantizes them; the answers stay close."""
    torch.manual_seed(0)
    config = VnaitConfig(method=method, vocab_size=50, hidden_size=64, num_labels=3, dropout=0.0)
    model = VnaitForSequenceClassification(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.05)
    small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    ids = torch.randint(3, 50, (4, 12))
    with torch.no_grad():
        found, expected = small(ids).logits, model(ids).logits
    assert type(small.classifier) is not nn.Linear
    assert not torch.equal(found, expected)
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["vnait-causal", "rope"])
def test_lm_eval_scores_and_generates(method, tmp_path):
    """Its harness, from a saved folder: likelihoods of continuations as by hand, and greedy texts."""
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    own = made()
    own.add_special_tokens({"bos_token": "[BOS]", "eos_token": "[EOS]"})
    torch.manual_seed(0)
    ends = {name: getattr(own, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    model = VnaitForCausalLM(VnaitConfig(method=method, vocab_size=len(own), hidden_size=32, **ends)).eval()
    model.save_pretrained(tmp_path)
    own.save_pretrained(tmp_path)
    harness = HFLM(pretrained=str(tmp_path), device="cpu", batch_size=2)
    asked = [("a dull film", " don't"), ("hello", " a dull film a"), ("", " one two")]
    instances = [Instance("loglikelihood", {}, pair, 0) for pair in asked]
    for (context, answer), (found, _) in zip(asked, harness.loglikelihood(instances), strict=True):
        start, rest = (own(part, add_special_tokens=False)["input_ids"] for part in (context, answer))
        start = start or [own.bos_token_id]
        with torch.no_grad():
            logs = model(torch.tensor([start + rest])).logits[0].log_softmax(-1)
        expected = sum(logs[len(start) - 1 + place, token] for place, token in enumerate(rest))
        assert found == pytest.approx(float(expected), abs=1e-4)
    until = {"until": ["\n"], "max_gen_toks": 4, "do_sample": False}
    (text,) = harness.generate_until([Instance("generate_until", {}, ("a dull film", until), 0)])
    ids = torch.tensor([own("a dull film", add_special_tokens=False)["input_ids"]])
    written = model.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1] :]
    assert text.split() == own.decode(written, skip_special_tokens=True).split()
