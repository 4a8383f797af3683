"""Write studies/README.md and its figures."""

from vnait_lab import STUDIES
from vnait_lab.page import factorial, page

if __name__ == "__main__":
    (STUDIES / "README.md").write_text(page(), encoding="utf-8")
    factorial.draw_figures()
