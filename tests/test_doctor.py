"""`vnait doctor`: planted faults are found, healthy models have none, and what it prints is true."""

import pytest
import torch

import vnait
from doctor_faults import FAULTS
from doctor_key import FAST, KEY, model_of
from vnait.diagnosis import RULES

FAMILIES = [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in KEY]


def codes(report: vnait.diagnosis.Report) -> set[str]:
    return {found.code for found in report.findings}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_by_its_rule(name):
    rule, healthy, plant = FAULTS[name]
    model = healthy()
    assert not vnait.doctor(model, rules=[rule]).findings
    with torch.no_grad():
        plant(model)
    (found,) = vnait.doctor(model, rules=[rule]).findings
    assert found.severity == RULES[rule].severity


@pytest.mark.parametrize("family", FAMILIES)
def test_a_healthy_model_has_the_findings_of_its_code_and_no_bug(family):
    report = vnait.doctor(model_of(family))
    assert report.bugs == ()
    assert codes(report) == KEY[family][0]
