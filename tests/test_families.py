"""The matrix of benchmarks/families.py on some families, and training with Trainer and DDP."""

from __future__ import annotations

import ast
import faulthandler
import socket
import warnings
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed
import torch.multiprocessing
import transformers
from torch.nn.parallel import DistributedDataParallel

import vnait
from families import COLUMNS, attached_to, cell, ids_of, logits, model_of
from helpers import python
from vnait.pretrained import load_adapter, save_adapter, save_base
from vnait.pretrained.attach.attached import attached_owners

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
QUICK = [name for name in COLUMNS if name not in ("compile", "ONNX")]


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
@pytest.mark.parametrize("column", QUICK)
def test_the_matrix(family, column):
    assert "FAILED" not in cell(column, family)


@pytest.mark.slow
@pytest.mark.long
def test_one_graph_and_one_file():
    """In another process: the tests' check of types can't be compiled. A decoder makes its cache inside."""
    cells = [("compile", "bert"), ("compile", "gpt2"), ("ONNX", "bert")]
    script = f"from families import cell\nprint([cell(*one) for one in {cells}])"
    found = dict(zip(cells, ast.literal_eval(python(script, cwd=BENCHMARKS)), strict=True))
    assert all(float(cell) <= 1e-4 for cell in found.values()), found


def test_a_cell_that_fails_is_reported(monkeypatch):
    def broken(family: str) -> str:
        raise ValueError("no\nmatter")

    monkeypatch.setitem(COLUMNS, "attach", broken)
    assert cell("attach", "bert") == "FAILED: ValueError: no"


def test_trainer_resumes(tmp_path):
    """Stopped in the middle, with gradient checkpointing: the same weights at the end."""
    rows = [{"input_ids": row, "labels": row} for row in ids_of(rows=16, length=8)]

    def trained(folder: Path, steps: int, resume: bool) -> transformers.PreTrainedModel:
        model = model_of("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        torch.manual_seed(0)
        vnait.attach(model)
        method = model.bert.vnait.method
        method.coordinates.shift = 0.0
        for view in method.inputs.views:
            view.dropout = 0.0
        arguments = transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=8,
            per_device_train_batch_size=4,
            learning_rate=1e-2,
            eval_strategy="steps",
            eval_steps=4,
            save_steps=4,
            gradient_checkpointing=True,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            seed=0,
        )
        stop = [] if steps == 8 else [_StopAt(steps)]
        trainer = transformers.Trainer(
            model, arguments, train_dataset=rows, eval_dataset=rows, callbacks=stop
        )
        trainer.train(resume_from_checkpoint=resume)
        return model.eval()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = trained(tmp_path / "whole", 8, resume=False)
        trained(tmp_path / "parts", 4, resume=False)
        again = trained(tmp_path / "parts", 8, resume=True)
    assert (attached_owners(whole)["bert"].vnait.gate != 0).any()
    assert torch.allclose(logits(whole, ids_of()), logits(again, ids_of()), atol=1e-4)


class _StopAt(transformers.TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step
        return control


def test_a_trained_base_is_saved_beside_its_adapter(tmp_path):
    model, ids = attached_to("bert"), ids_of()
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.weight.add_(0.1)
    save_base(model, tmp_path / "base")
    save_adapter(model, tmp_path / "adapter")
    again = type(model).from_pretrained(tmp_path / "base")
    assert "vnait" not in (tmp_path / "base" / "config.json").read_text()
    load_adapter(again, tmp_path / "adapter")
    assert torch.allclose(logits(again, ids), logits(model, ids), atol=1e-6)


@pytest.mark.filterwarnings("ignore:torch")  # its quantization is deprecated
def test_a_quantized_base_is_refused():
    model = model_of("bert")
    model.config.quantization_config = {"quant_method": "bitsandbytes"}
    layers = torch.ao.quantization.quantize_dynamic(model_of("llama"), {torch.nn.Linear})
    for quantized in (model, layers):
        with pytest.raises(vnait.InputError, match="the model is quantized, which attach was never tried on"):
            vnait.attach(quantized, "vnait-causal")


def test_weights_that_are_not_here_are_refused():
    model = model_of("llama").to("meta")
    with pytest.raises(vnait.InputError, match=r"on the device meta, .* load the model whole, attach"):
        vnait.attach(model, "vnait-causal")


def test_what_is_attached_in_inference_mode_learns():
    model = model_of("bert")
    with torch.inference_mode():
        vnait.attach(model)
    model(ids_of()).logits.sum().backward()
    (attached,) = (owner.vnait for owner in attached_owners(model).values())
    assert attached.gate.grad.abs().sum() > 0


@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_padding_without_a_mask_is_refused_where_the_model_leaves_it_out(family):
    """RoBERTa gives padding no place of its own; BERT counts it as words, and so does a method."""
    model = model_of(family)
    ids = ids_of().clone()
    ids[0, :2] = model.config.pad_token_id
    expected = model(ids).logits
    vnait.attach(model)
    if family == "bert":
        assert torch.allclose(model(ids).logits, expected, atol=1e-5)
        return
    with pytest.raises(vnait.InputError, match="input_ids have padding, the id 0, and no attention_mask"):
        model(ids)


@pytest.mark.long
@pytest.mark.slow
def test_processes_have_the_same_gradients(tmp_path, monkeypatch):
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", loopback)  # otherwise gloo resolves this host's name
    torch.multiprocessing.spawn(_process, args=(tmp_path,), nprocs=2)
    one, two = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert one.keys() == two.keys() and len(one) > 20
    assert all(torch.equal(one[name], two[name]) for name in one)


def _process(rank: int, folder: Path) -> None:
    faulthandler.dump_traceback_later(400, exit=True)  # the parent would wait forever, without our stack
    store = torch.distributed.FileStore(str(folder / "store"), 2)  # a free port may be taken later
    torch.distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=120)
    )
    model = attached_to("llama").train()
    ids = ids_of(rows=4)[2 * rank : 2 * rank + 2]
    replica = DistributedDataParallel(model)  # needs a name: without it, nothing is gathered
    replica(ids, attention_mask=torch.ones_like(ids)).logits.square().mean().backward()
    torch.save({name: weight.grad for name, weight in model.named_parameters()}, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()
