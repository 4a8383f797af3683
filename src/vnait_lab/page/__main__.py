"""Write studies/README.md, its figures, and docs/documents.md."""

from vnait_lab.page import decoders, factorial, pages

if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    factorial.draw_figures()
    decoders.draw_figure()
