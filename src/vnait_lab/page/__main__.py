"""Write studies/README.md."""

from vnait_lab import STUDIES
from vnait_lab.page import page

if __name__ == "__main__":
    (STUDIES / "README.md").write_text(page(), encoding="utf-8")
