"""transformers' own tests of a model class, run on this package's models.

`ModelTesterMixin` is in the source distribution of transformers, not in its wheel: it is downloaded once into
build/, and nothing of it is copied here. The distribution lacks `GenerationTesterMixin`; set
VNAIT_TRANSFORMERS_TESTS to the `tests` folder of a checkout to run that too.
"""

from __future__ import annotations

import copy
import importlib
import os
import subprocess
import sys
import tarfile
import types
import unittest
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from vnait.model import (
    VnaitConfig,
    VnaitForCausalLM,
    VnaitForMaskedLM,
    VnaitForSequenceClassification,
    VnaitForTokenClassification,
    VnaitModel,
)

PACKAGE = "transformers_tests"
BUILD = Path(__file__).parents[1] / "build"
ENCODERS = (VnaitModel, VnaitForSequenceClassification, VnaitForTokenClassification, VnaitForMaskedLM)
# The lists in which transformers' tests look a class up, to know its labels.
KINDS = {
    "MODEL_MAPPING_NAMES": VnaitModel,
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES": VnaitForSequenceClassification,
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES": VnaitForTokenClassification,
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES": VnaitForMaskedLM,
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES": VnaitForCausalLM,
}


class Unavailable(Exception):
    """The source distribution can't be had here."""


def source_tests() -> Path:
    """The folder `tests` of transformers, of a checkout or of the installed version's source distribution."""
    if given := os.environ.get("VNAIT_TRANSFORMERS_TESTS"):
        return Path(given)
    name = f"transformers-{transformers.__version__}"
    folder = BUILD / name / "tests"
    if not folder.is_dir():
        BUILD.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
        command += ["--no-binary", "transformers", "--dest", str(BUILD), name.replace("-", "==")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"pip can't download the source of {name}: {done.stderr.strip()[-300:]}")
        with tarfile.open(BUILD / f"{name}.tar.gz") as archive:
            archive.extractall(BUILD, filter="data")
    return folder


def common_tests() -> Any:
    """The module `test_modeling_common`, with what its distribution leaves out as empty classes."""
    if PACKAGE in sys.modules:
        return sys.modules[f"{PACKAGE}.test_modeling_common"]
    folder = source_tests()
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[PACKAGE] = package
    for module, name in (
        ("exporters.test_export", "ExportTesterMixin"),
        ("generation.test_utils", "GenerationTesterMixin"),
    ):
        if not (folder / f"{module.replace('.', '/')}.py").is_file():
            parent, _ = module.split(".")
            sys.modules.setdefault(f"{PACKAGE}.{parent}", types.ModuleType(f"{PACKAGE}.{parent}"))
            stand_in = types.ModuleType(f"{PACKAGE}.{module}")
            setattr(stand_in, name, type(name, (), {}))
            sys.modules[f"{PACKAGE}.{module}"] = stand_in
    common = importlib.import_module(f"{PACKAGE}.test_modeling_common")
    listed = common.get_values

    def get_values(mapping: Any) -> list[str]:
        ours = [kind.__name__ for name, kind in KINDS.items() if mapping is getattr(common, name)]
        return [*listed(mapping), *ours]

    common.get_values = get_values
    return common


class Tester:
    """What the mixins ask for a small model and its inputs."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.batch_size, self.seq_length, self.vocab_size = 3, 7, 40
        # Wide: a classifier's bias starts within 1 / sqrt(width), and one test wants its mean below .1.
        self.hidden_size, self.num_hidden_layers, self.num_attention_heads = 128, 2, 4
        self.is_training = True

    def get_config(self) -> VnaitConfig:
        return VnaitConfig(
            method=self.method,
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            max_length=64,
            dropout=0.0,
            use_cache=True,
        )

    def prepare_config_and_inputs_for_common(self) -> tuple[VnaitConfig, dict[str, torch.Tensor]]:
        ids = torch.randint(1, self.vocab_size, (self.batch_size, self.seq_length))
        return self.get_config(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@dataclass
class Outcome:
    """Names of the tests, by outcome; a failure with the last line of its report."""

    passed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"]
        return "\n".join([*lines, *(f"  {name}: {why}" for name, why in self.failed.items())])


class _Result(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.outcome, self.reports = Outcome(), {}

    def _note(self, test: Any, error: Any) -> None:
        name = str(test).split()[0]
        self.reports[name] = self._exc_info_to_string(error, test)
        self.outcome.failed[name] = f"{error[0].__name__}: {str(error[1]).strip().splitlines()[:1]}"

    def addSuccess(self, test: Any) -> None:
        if (name := str(test).split()[0]) not in self.outcome.failed:
            self.outcome.passed.append(name)

    def addError(self, test: Any, err: Any) -> None:
        self._note(test, err)

    def addFailure(self, test: Any, err: Any) -> None:
        self._note(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._note(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.outcome.skipped[str(test).split()[0]] = reason


def suite_of(method: str, classes: Sequence[type], only: str = "test_") -> unittest.TestSuite:
    """transformers' tests on these classes with this method."""
    common = common_tests()
    generates = any(kind.can_generate() for kind in classes)
    mixins = (common.ModelTesterMixin, *((common.GenerationTesterMixin,) if generates else ()))

    def prepare(self: Any, inputs: Any, kind: type, return_labels: bool = False) -> Any:
        return mixins[0]._prepare_for_class(self, copy.deepcopy(inputs), kind, return_labels)

    case = type(
        f"{method.replace('-', ' ').title().replace(' ', '')}ModelTest",
        (*mixins, unittest.TestCase),
        {
            "all_model_classes": tuple(classes),
            "setUp": lambda self: setattr(self, "model_tester", Tester(method)),
            "_prepare_for_class": prepare,
        },
    )
    names = unittest.TestLoader().getTestCaseNames(case)
    return unittest.TestSuite(case(name) for name in names if name.startswith(only))


def run(method: str, classes: Sequence[type], only: str = "test_") -> tuple[Outcome, dict[str, str]]:
    """The outcome of every test, and the reports of those that failed."""
    result = _Result()
    for test in suite_of(method, classes, only):
        torch.manual_seed(0)
        test.run(result)
    return result.outcome, result.reports


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    transformers.logging.disable_progress_bar()
    failed = False
    for name in sys.argv[1].split(","):
        models = ENCODERS if name == "vnait" else (*ENCODERS, VnaitForCausalLM)
        found, told = run(name, models, sys.argv[2] if len(sys.argv) > 2 else "test_")
        print(name, found, flush=True)
        failed |= bool(found.failed) or len(found.passed) < 90
        if os.environ.get("REPORTS"):
            for key, text in told.items():
                print("=" * 20, key, "\n", text)
    sys.exit(failed)
