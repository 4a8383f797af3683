"""`make bench`: what things cost, one after the other; the other benchmarks here need a model or files, and
run by hand.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

for name in ("input_layer.py", "methods.py", "vectors.py"):
    print(f"\n{name}", flush=True)
    subprocess.run([sys.executable, str(HERE / name)], check=True)
