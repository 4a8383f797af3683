"""Suites of generated tasks, on which methods are compared at lengths that they were not trained on."""

from vnait.suites.length import LENGTHS, QUICK, Setting, run_suite, summary, verdict
from vnait.suites.tasks import TASKS, Task, task

__all__ = ["LENGTHS", "QUICK", "TASKS", "Setting", "Task", "run_suite", "summary", "task", "verdict"]
