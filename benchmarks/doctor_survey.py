"""What `vnait doctor` finds on a tiny random model of every type of transformers' text models.

    python benchmarks/doctor_survey.py [TYPE ...] [--out docs/doctor-survey.md]

Types as in model_types.py. Weights are enlarged, so that positions matter.
"""

import argparse
import contextlib
import io
import logging
import time
import warnings
from collections import Counter
from pathlib import Path

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING

import vnait
from model_types import TINY, tiny
from vnait.pretrained.doctor import RULES, Report, Severity


@torch.no_grad()
def enlarge(model: nn.Module) -> nn.Module:
    """Random matrices whose outputs are as large as their inputs; embeddings of size 1; fixed tables stay."""
    torch.manual_seed(0)
    for part in model.modules():
        for name, weight in part.named_parameters(recurse=False):
            if weight.ndim >= 2 and weight.requires_grad:
                one = isinstance(part, nn.Embedding) or "bias" in name
                torch.nn.init.normal_(weight, std=1.0 if one else 1.5 * weight.shape[-1] ** -0.5)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            part.weight[part.padding_idx] = 0
    return model


def examined(name: str) -> Report | str:
    """The report, or why there is none."""
    model = tiny(name, varied=True) or tiny(name)
    if model is None:
        return "not tiny"
    try:
        return vnait.doctor(enlarge(model))
    except vnait.InputError as error:
        return f"refused: {error}"
    except Exception as error:
        return f"FAILED {type(error).__name__}: {str(error)[:100]}"


def table(found: dict[str, Report | str]) -> list[str]:
    """A row per rule: how many types it was tried on, found on by severity, and where the bugs are."""
    reports = {name: report for name, report in found.items() if isinstance(report, Report)}
    lines = [
        "| rule | name | tried | kept | bug | trap | limit | types with a bug |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for code, rule in RULES.items():
        hits = {name: hit for name, report in reports.items() for hit in report.findings if hit.code == code}
        kept = sum(code in report.kept_rules for report in reports.values())
        counts = Counter(hit.severity for hit in hits.values())
        bugs = ", ".join(name for name, hit in hits.items() if hit.severity == Severity.BUG)
        cells = [code, rule.name, kept + len(hits), kept, *(counts[one] for one in Severity), bugs]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("types", nargs="*")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    TINY["attention_window"] = 16  # of Longformer, 512 by default, to which texts are padded
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    began = time.process_time()
    found: dict[str, Report | str] = {}
    for name in options.types or [name for name in CONFIG_MAPPING if CONFIG_MAPPING[name] in MODEL_MAPPING]:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            started = time.process_time()
            found[name] = examined(name)
            seconds = time.process_time() - started
        report = found[name]
        words = (
            report
            if isinstance(report, str)
            else " ".join(f"{one.code}:{one.severity}" for one in report.findings)
            + "".join(f" {code} FAILED {error}" for code, error in report.faults.items())
        )
        print(f"{name}\t{seconds:.1f}\t{words}", flush=True)
    seconds = time.process_time() - began
    examined_types = [name for name, report in found.items() if isinstance(report, Report)]
    refused = [name for name, report in found.items() if isinstance(report, str) and report != "not tiny"]
    kinds = "1 type was" if len(examined_types) == 1 else f"{len(examined_types)} types were"
    rules = sum(len(report.faults) for report in found.values() if isinstance(report, Report))
    failed = "No rule" if rules == 0 else f"{rules} rules"
    were = "was" if len(refused) == 1 else "were"
    names = f" ({', '.join(refused)})" if refused else ""
    others = len(found) - len(examined_types) - len(refused)
    summary = (
        f"{kinds} examined; {len(refused)} {were} refused{names}, and {others} read something other "
        f"than text or could not be made tiny. {failed} failed inside the doctor. It took {seconds:.0f} s of "
        "one core's time."
    )
    print(summary)
    if options.out:
        head = [
            "# What the doctor finds in every type of text model\n",
            "Written by `python benchmarks/doctor_survey.py --out docs/doctor-survey.md` with transformers "
            f"{transformers.__version__}, on a tiny random model of every type. {summary}\n",
            *table(found),
        ]
        options.out.write_text("\n".join(head) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
