"""`vnait doctor`: faults of position in text models of transformers, found by rule."""

from vnait.pretrained.doctor.report import Report
from vnait.pretrained.doctor.rule import Evidence, Finding, NotTried, Rule, Severity, rule
from vnait.pretrained.doctor.rules import RULES
from vnait.pretrained.doctor.running import doctor

__all__ = ["RULES", "Evidence", "Finding", "NotTried", "Report", "Rule", "Severity", "doctor", "rule"]
