"use strict";

// Figures: drawn when they can be seen, so that a folded one has a width.

const draw = (plot) => {
  if (plot.matches(".js-plotly-plot")) return;
  const { data, layout } = JSON.parse(plot.parentElement.querySelector("script").textContent);
  Plotly.newPlot(plot, data, layout, { displayModeBar: false, responsive: true });
};
const drawn = () => document.querySelectorAll(".js-plotly-plot");
const seen = new IntersectionObserver(
  (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
  { rootMargin: "400px" },
);
document.querySelectorAll(".plot").forEach((plot) => seen.observe(plot));

// Paper: everything that is not folded, as wide as the sheet.

addEventListener("beforeprint", () => {
  document.querySelectorAll(".plot").forEach((plot) => plot.closest("details:not([open])") || draw(plot));
  drawn().forEach((plot) => Plotly.relayout(plot, { width: 640 }));
});
addEventListener("afterprint", () => drawn().forEach((plot) => Plotly.relayout(plot, { autosize: true, width: null })));

// Tables: a click on a heading sorts, numbers as numbers, empty cells last.

const worth = (text) => (text === "" ? NaN : Number(text.replaceAll(",", "")));
const compare = (one, other) => {
  const [left, right] = [worth(one), worth(other)];
  if (!Number.isNaN(left) && !Number.isNaN(right)) return left - right;
  if (Number.isNaN(left) !== Number.isNaN(right)) return Number.isNaN(left) ? 1 : -1;
  return one.localeCompare(other);
};
const sort = (heading) => {
  const table = heading.closest("table");
  const turned = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const at = heading.cellIndex;
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: row.cells[at].textContent }));
  rows.sort((one, other) => {
    if (one.text === "" || other.text === "") return (one.text === "") - (other.text === "");
    return turned * compare(one.text, other.text);
  });
  table.tBodies[0].append(...rows.map((entry) => entry.row));
  table.querySelectorAll("[aria-sort]").forEach((other) => other.setAttribute("aria-sort", "none"));
  heading.setAttribute("aria-sort", turned > 0 ? "ascending" : "descending");
};
document.querySelectorAll("thead button").forEach((button) => {
  button.addEventListener("click", () => sort(button.parentElement));
});

// Copies: a table as lines of cells with tabs between them, as a spreadsheet takes it; a command as it is.

const said = document.getElementById("said");
const text = (source) => {
  const table = source.querySelector("table");
  if (!table) return source.textContent;
  const line = (row) => [...row.cells].map((cell) => cell.textContent.trim().replace(/\s+/g, " ")).join("\t");
  return [...table.rows].map(line).join("\n");
};
document.querySelectorAll(".copy").forEach((button) => {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text(button.previousElementSibling));
      said.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling);
      said.textContent = "Selected: copy it with Ctrl+C.";
    }
    setTimeout(() => (said.textContent = ""), 3000);
  });
});

// Light and dark: the system's choice, until the button is pressed.

document.getElementById("theme").addEventListener("click", () => {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const now = document.documentElement.dataset.theme ?? system;
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
});
