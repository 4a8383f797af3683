"""What `import vnait` gives, and what it costs."""

import ast
import json
from pathlib import Path
from statistics import median

import pytest

import vnait
from helpers import python

HEAVY = (
    "transformers",
    "sklearn",
    "pandas",
    "gensim",
    "scipy",
    "datasets",
    "accelerate",
    "typer",
    "rich",
    "joblib",
)
CONFIGURED = "(vnait.VnaitConfig(hidden_size=8)).config"
TOKENIZER = "from transformers import AutoTokenizer"
ENTRIES = {
    "AutoConfig": "import vnait\nfrom transformers import AutoConfig\ngot = AutoConfig.for_model('vnait')",
    "AutoModel": "import vnait\nfrom transformers import AutoModelForMaskedLM\ngot = "
    f"AutoModelForMaskedLM.from_config{CONFIGURED}",
    "a model": "import vnait\nfrom transformers import BertModel, AutoConfig\ngot = "
    "AutoConfig.for_model('vnait')",
    **{
        first: f"import vnait\n{first}\n"
        "from transformers import AutoConfig\ngot = AutoConfig.for_model('vnait')"
        for first in (
            TOKENIZER,
            "from transformers import pipeline",
            "import vnait.pretrained.changing",
            "import vnait.pretrained.loading",
            "import vnait.train.saved",
        )
    },
    "before vnait": "from transformers import AutoModel\nimport vnait\ngot = "
    f"AutoModel.from_config{CONFIGURED}",
}
# Commands that need no method's module, and what they answer.
QUICK = {
    "--help": "Compare positional methods",
    "--version": "vnait 0.1.0",
    "compare --help": "--methods",
    "compare builtin:splice --speed 9": "No such option: --speed",
    "compare gone.csv": "there is no file gone.csv",
    "compare builtin:splice --text body": "has no column 'body'",
    "compare builtin:splice --methods vnat,base:rope": "Did you mean 'vnait'? The methods are none, sinus",
    "compare builtin:splice --base . --methods base:vnat": "Did you mean 'vnait'? After base: comes own",
    "train builtin:splice --out new --method vnat --seed -1": "Did you mean 'vnait'? The methods are none",
    "train gone.csv --out new": "there is no file gone.csv",
    "predict gone -": "there is no folder gone; give one that `vnait train`",
    "explain gone film": "there is no folder gone; give one that `vnait train`",
    "report gone": "there is no folder gone; give one that `vnait compare`",
}
ANSWERS = """
import contextlib, io, json, os, sys
from vnait.cli import main

found = {}
for command in json.loads(sys.argv[1]):
    ours, theirs = os.pipe()
    if not os.fork():
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                main(command.split())
            except SystemExit:
                pass
        with os.fdopen(theirs, "w") as file:
            json.dump([" ".join(said.getvalue().split()), sorted(sys.modules)], file)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file:
        found[command] = json.load(file)
    os.wait()
print(json.dumps(found))
"""


# Asked of forks of one fresh process that has torch and what transformers takes from others, but nothing of
# transformers or vnait: no answer knows what another one imported.
FRESH = """
import json, os, sys, time, traceback
import torch

def apart(question):
    ours, theirs = os.pipe()
    if not os.fork():
        try:
            found = question()
        except BaseException:
            found = traceback.format_exc()
        with os.fdopen(theirs, "w") as file:
            json.dump(found, file)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file:
        found = json.load(file)
    os.wait()
    return found

def seconds():
    before = time.perf_counter()
    import vnait
    return time.perf_counter() - before

def entered(entry):
    space = {}
    exec(entry, space)
    return space["got"].model_type

found = {"seconds": [apart(seconds) for _ in range(3)]}
import accelerate, sympy
assert not {"transformers", "vnait"} & set(sys.modules)
found |= {name: apart(lambda: entered(entry)) for name, entry in json.loads(sys.argv[1]).items()}
print(json.dumps(found))
"""


def test_all_is_alphabetical_and_about_twenty_names():
    assert vnait.__all__ == sorted(vnait.__all__)
    assert len(set(vnait.__all__)) == len(vnait.__all__)
    assert 15 <= len(vnait.__all__) <= 26


@pytest.mark.parametrize("name", vnait.__all__)
def test_every_public_name_resolves_and_is_listed(name):
    assert getattr(vnait, name) is not None
    assert name in dir(vnait)
    assert getattr(vnait, name).__doc__ or name == "METHODS"


def test_a_checker_of_types_knows_every_public_name():
    tree = ast.parse(Path(vnait.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert sorted(alias.name for line in block.body for alias in line.names) == vnait.__all__


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="No vnait attribute attend"):
        vnait.attend  # noqa: B018


@pytest.fixture(scope="module")
def fresh() -> dict:
    """Seconds of `import vnait` beyond torch's own, three times, and the model type that each entry gives."""
    return json.loads(python(FRESH, json.dumps(ENTRIES)))


def test_import_needs_nothing_heavy():
    names = python(
        "import sys\nimport vnait\nprint(*sorted({name.split('.')[0] for name in sys.modules}))"
    ).split()
    assert not {*HEAVY, "torch", "numpy"} & set(names)


@pytest.fixture(scope="module")
def answers() -> dict:
    """What each command prints, and the modules that it loads."""
    return json.loads(python(ANSWERS, json.dumps(list(QUICK))))


@pytest.mark.parametrize("command", QUICK)
def test_a_question_or_an_error_is_answered_without_torch(command, answers):
    printed, loaded = answers[command]
    assert QUICK[command] in printed
    # typer and rich are what the command line is made of.
    slow = {"torch", "numpy", *HEAVY} - {"typer", "rich"}
    assert not slow & {name.split(".")[0] for name in loaded}


@pytest.mark.long  # what it measures is what `test_import_needs_nothing_heavy` counts
def test_import_takes_less_than_half_a_second_beyond_torch(fresh):
    assert median(fresh["seconds"]) < 0.5


def test_names_of_later_modules_come_when_they_are_asked_for():
    loaded = "'vnait.results.record' in sys.modules"
    script = f"import sys, vnait\nprint({loaded}, vnait.Record.__name__, {loaded})"
    assert python(script).split() == ["False", "Record", "True"]


def test_a_tokenizer_may_come_first():
    assert python(f"{ENTRIES[TOKENIZER]}\nprint(got.model_type)") == "vnait\n"


@pytest.mark.long
@pytest.mark.parametrize("entry", ENTRIES)
def test_transformers_knows_our_models_whatever_is_asked_for_first(entry, fresh):
    # transformers' modules import one another in an order that depends on the entry; ours must not come in
    # between.
    assert fresh[entry] == "vnait"
