"""`make bench`: what things cost, one after the other; the other benchmarks here need a model or files, and
run by hand.
"""

import subprocess
import sys
from pathlib import Path

HERE, BUILD = Path(__file__).parent, Path("build")

BUILD.mkdir(exist_ok=True)
for name, *options in (
    ("start_up.py",),
    ("input_layer.py",),
    ("coordinates.py",),
    ("methods.py", "--json", BUILD / "methods.json"),
    ("decoding.py",),
    ("predict.py",),
    ("reading.py",),
    ("vectors.py",),
):
    print(f"\n{name}", flush=True)
    subprocess.run([sys.executable, HERE / name, *options], check=True)
