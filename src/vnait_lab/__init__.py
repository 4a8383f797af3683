"""The laboratory: studies of claims about positions, suites of tasks, and the page of findings. It imports
`vnait`, never the reverse.

study.py, studies/    short studies: claims, variants, controls, verdicts
suites/, runners.py   tasks on which all methods are compared: `vnait study length` and the like
runs/                 long experiments, each a command: python -m vnait_lab.runs.NAME
peers/                papers' formulas and other libraries' parts, for the conformance suite
page/                 writes studies/README.md and docs/documents.md: python -m vnait_lab.page
plugin.py             the library's entry point into the laboratory
"""

from pathlib import Path

STUDIES = Path("studies")  # in the checkout that a command runs from: records, figures, findings
RECORDS = STUDIES / "records"
