"""`make bench`: every benchmark that needs no data of yours, one after the other.

few_labels.py needs VNAIT_DATA and an hour, and is run by itself.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

for name in ("input_layer.py", "methods.py", "vectors.py"):
    print(f"\n{name}", flush=True)
    subprocess.run([sys.executable, str(HERE / name)], check=True)
