"""What the command line takes to answer where no model is needed.

    python benchmarks/start_up.py [--rounds 5]

Seconds of a fresh process, the median over rounds, in which every command runs once; and beside those of a
process that only loads typer, in the same round.
"""

import argparse
import subprocess
import sys
import time
from statistics import median

TYPER = "import typer"
COMMANDS = (
    "--help",
    "--version",
    "list",
    "compare builtin:splice --speed 9",
    "compare gone.csv",
    "compare builtin:splice --text body",
    "compare builtin:splice --methods vnat",
    "predict gone -",
    "params",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {command: [] for command in (TYPER, *COMMANDS)}
    for _ in range(rounds + 1):  # the first one reads the files
        for command, own in taken.items():
            own.append(seconds(command))
    print(f"{rounds} rounds                             seconds   beside `{TYPER}`")
    for command, own in taken.items():
        ratio = median(one / base for one, base in zip(own[1:], taken[TYPER][1:], strict=True))
        print(f"{command:38} {median(own[1:]):7.2f}   {ratio:7.1f}")


def seconds(command: str) -> float:
    arguments = ["-c", TYPER] if command == TYPER else ["-m", "vnait", *command.split()]
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
