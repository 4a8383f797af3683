"use strict";

// Figures are drawn when they become visible: before that, a folded figure has no width.

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

// Print everything that is not folded, at the width of the sheet.

addEventListener("beforeprint", () => {
  document.querySelectorAll(".plot").forEach((plot) => plot.closest("details:not([open])") || draw(plot));
  drawn().forEach((plot) => Plotly.relayout(plot, { width: 640 }));
});
addEventListener("afterprint", () => drawn().forEach((plot) => Plotly.relayout(plot, { autosize: true, width: null })));

// A click on a heading sorts the table, numbers by value, empty cells last.

const value = (text) => (text === "" ? NaN : Number(text.replaceAll(",", "")));
const compare = (one, other) => {
  const [left, right] = [value(one), value(other)];
  if (!Number.isNaN(left) && !Number.isNaN(right)) return left - right;
  if (Number.isNaN(left) !== Number.isNaN(right)) return Number.isNaN(left) ? 1 : -1;
  return one.localeCompare(other);
};
const sort = (heading) => {
  const table = heading.closest("table");
  const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const at = heading.cellIndex;
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: row.cells[at].textContent }));
  rows.sort((one, other) => {
    if (one.text === "" || other.text === "") return (one.text === "") - (other.text === "");
    return direction * compare(one.text, other.text);
  });
  table.tBodies[0].append(...rows.map((entry) => entry.row));
  table.querySelectorAll("[aria-sort]").forEach((other) => other.setAttribute("aria-sort", "none"));
  heading.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
};
document.querySelectorAll("thead button").forEach((button) => {
  button.addEventListener("click", () => sort(button.parentElement));
});

// Tables are copied with tabs between cells, for spreadsheets; commands as they are.

const message = document.getElementById("status");
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
      message.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling);
      message.textContent = "Selected: copy it with Ctrl+C.";
    }
    setTimeout(() => (message.textContent = ""), 3000);
  });
});

// Light or dark: the choice of the system, until the button is pressed.

document.getElementById("theme").addEventListener("click", () => {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const now = document.documentElement.dataset.theme ?? system;
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
});
