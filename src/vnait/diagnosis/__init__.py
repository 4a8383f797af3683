"""`vnait doctor`: faults of position in text models of transformers, found by rule."""

from vnait.diagnosis.report import Report
from vnait.diagnosis.rule import Evidence, Finding, NotTried, Rule, Severity, rule
from vnait.diagnosis.rules import RULES
from vnait.diagnosis.running import doctor

__all__ = ["RULES", "Evidence", "Finding", "NotTried", "Report", "Rule", "Severity", "doctor", "rule"]
