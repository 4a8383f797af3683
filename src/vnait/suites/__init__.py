"""Suites on which methods are compared: generated tasks, at lengths that they were not trained on, and real sets with few labels."""

from vnait.suites.length import LENGTHS, QUICK, Setting, run_suite, summary, verdict
from vnait.suites.tasks import TASKS, Task, task

__all__ = ["LENGTHS", "QUICK", "TASKS", "Setting", "Task", "run_suite", "summary", "task", "verdict"]
