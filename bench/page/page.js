"use strict";
/* What a page does in a browser: draws its charts, sorts and filters its tables, goes from light to dark. */
(() => {
  const root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });

  const value = (cell) => {
    if (cell === undefined) return "";
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.trim(), number = Number(text.replaceAll(",", ""));
    return text === "" || Number.isNaN(number) ? text : number;
  };
  const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;

  const sort = (table, head, column) => {
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => order(value(a.cells[column]), value(b.cells[column])) * (down ? -1 : 1));
    table.tBodies[0].append(...rows);
  };

  for (const table of document.querySelectorAll("table.sorted")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
      head.append(button);
    });
  }

  for (const table of document.querySelectorAll("table.filtered")) {
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "filter";
    field.setAttribute("aria-label", `Filter: ${table.caption.textContent}`);
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.parentElement.prepend(field);
  }

  for (const box of document.querySelectorAll(".table"))  // so that arrow keys scroll it in any browser
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;

  const draw = (figure) => {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    return vegaEmbed(figure.querySelector(".plot"), spec, { renderer: "svg", actions: false });
  };
  Promise.all([...document.querySelectorAll("figure.chart")].map(draw)).then(
    () => { root.dataset.drawn = "yes"; },
    (error) => { console.error(error); },
  );
})();
