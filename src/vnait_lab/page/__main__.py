"""Write studies/README.md, its figures, and docs/documents.md."""

from vnait_lab.page import factorial, language, pages

if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    factorial.draw_figures()
    language.draw_figure()
