// Tables whose rows are changed in place, so that neither focus nor selection is lost when they are renewed.

export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export class Table {
  /// @param columns the title of each column; the first one heads its rows
  constructor(id, columns) {
    this.body = document.getElementById(`${id}-body`);
    this.columns = columns;
    this.rows = new Map();
    const head = document.getElementById(`${id}-head`);
    for (const title of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.setAttribute("role", "columnheader");
      cell.textContent = title;
      head.append(cell);
    }
  }

  makeRow() {
    const row = document.createElement("tr");
    row.setAttribute("role", "row");
    this.columns.forEach((title, index) => {
      const cell = document.createElement(index === 0 ? "th" : "td");
      cell.setAttribute("role", index === 0 ? "rowheader" : "cell");
      cell.dataset.title = title;
      if (index === 0) cell.scope = "row";
      row.append(cell);
    });
    return row;
  }

  /// Shows these rows and no others. @param rows of {key, old, cells}; a cell is {text, small, kind, share, link}
  show(rows) {
    const keys = new Set(rows.map((row) => row.key));
    for (const [key, row] of this.rows)
      if (!keys.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    rows.forEach((shown, index) => {
      let row = this.rows.get(shown.key);
      if (!row) {
        row = this.makeRow();
        this.rows.set(shown.key, row);
      }
      if (this.body.children[index] !== row) this.body.insertBefore(row, this.body.children[index] ?? null);
      row.classList.toggle("old", Boolean(shown.old));
      shown.cells.forEach((cell, column) => fill(row.children[column], cell, `${shown.key}: ${this.columns[column]}`));
    });
  }
}

function part(cell, tag, wanted) {
  let element = cell.querySelector(tag);
  if (wanted && !element) {
    element = document.createElement(tag);
    cell.firstChild.append(element);
  }
  if (!wanted && element) element.remove();
  return wanted ? element : null;
}

function fill(cell, { text = "", small = "", kind = "", share = null, link = "" }, name) {
  if (!cell.firstChild) cell.append(document.createElement("div"));
  cell.classList.toggle("empty", text === "" && small === "");
  const anchor = part(cell, "a", link !== "");
  if (anchor && anchor.getAttribute("href") !== link) anchor.href = link;
  const label = anchor ?? part(cell, "span", true);
  if (anchor) part(cell, "span", false);
  put(label, text);
  label.className = kind;
  const meter = part(cell, "meter", share !== null);
  if (meter) {
    meter.value = share;
    meter.setAttribute("aria-label", name);
  }
  const more = part(cell, "small", small !== "");
  if (more) {
    more.className = "small";
    put(more, small);
  }
}
