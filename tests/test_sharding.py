"""FSDP2 shards every method's model over processes; what it saves loads in one."""

from __future__ import annotations

import faulthandler
import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from vnait import METHODS
from vnait.model import VnaitConfig, VnaitForSequenceClassification

IDS = torch.tensor([[5, 6, 7, 8], [9, 5, 6, 0]])


def outputs(model: VnaitForSequenceClassification) -> torch.Tensor:
    """The logits of two texts, one padded."""
    model.eval()
    with torch.no_grad():
        return model(IDS, attention_mask=IDS > 0).logits


def shard_and_save(rank: int, folder: Path) -> None:
    """What each of two processes runs: outputs as one model's, two steps, all weights in one folder."""
    faulthandler.dump_traceback_later(400, exit=True)  # the parent would wait forever, without our stack
    os.environ["OMP_NUM_THREADS"] = "1"
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    torch.distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=120)
    )
    mesh = init_device_mesh("cpu", (2,))
    trained = {}
    for method in METHODS:
        torch.manual_seed(0)
        config = VnaitConfig(
            method=method, vocab_size=12, hidden_size=16, intermediate_size=16, shape=(-1, 2)
        )
        model = VnaitForSequenceClassification(config)
        whole = outputs(model)
        for block in model.model.encoder.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        torch.testing.assert_close(outputs(model), whole, msg=method)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(2):
            model(IDS, attention_mask=IDS > 0, labels=torch.tensor([0, 1])).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        trained[method] = outputs(model)
        assert (trained[method] - whole).abs().max() > 1e-3, method
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = get_model_state_dict(model, options=options)
        if rank == 0:
            model.save_pretrained(folder / method, state_dict=weights)
    if rank == 0:
        torch.save(trained, folder / "outputs.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.long
def test_every_method_is_sharded_saved_and_loaded(tmp_path, monkeypatch):
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", loopback)
    torch.multiprocessing.spawn(shard_and_save, args=(tmp_path,), nprocs=2)
    trained = torch.load(tmp_path / "outputs.pt")
    assert set(trained) == set(METHODS)
    for method, expected in trained.items():
        found = outputs(VnaitForSequenceClassification.from_pretrained(tmp_path / method))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6, msg=method)
