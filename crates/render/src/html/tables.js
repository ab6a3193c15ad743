
"use strict";
// What tables can do on the page of a report and on that of a comparison. Nothing here is needed to read them.
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// A field for words that a row must have, and what it found.
const filterField = () => {
  const input = make("input", { type: "search", placeholder: "Filter: words that a row must have" });
  input.setAttribute("aria-label", "Filter rows");
  return [input, make("output")];
};
const filterWords = (input) => input.value.toLowerCase().split(/\s+/).filter(Boolean);

const isPart = (row) => row.matches(".part") || row.querySelector(".part-of") !== null;
const cellText = (row, at) => row.cells[at].textContent;
const cellNumber = (row, at) => parseFloat(cellText(row, at).replace(/[,±[\s]/g, ""));

// The head of each column sorts the table, with the rows that are folded below it. Parts stay below their whole.
const sorts = (table) => {
  const body = table.tBodies[0];
  const rest = table.closest(".table")?.nextElementSibling;
  const wholes = () => {
    if (rest?.matches(".rest")) {
      body.append(...rest.querySelectorAll("tbody tr"));
      rest.remove();
    }
    const found = [];
    for (const row of body.rows) {
      if (row.matches(".apart")) break;
      if (isPart(row)) found.at(-1)?.push(row);
      else found.push([row]);
    }
    return found;
  };
  table.classList.add("sorts");
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    // A column of bars.
    if (!head.textContent || ![...body.rows].some((row) => cellText(row, at))) return;
    const numeric = head.classList.contains("n");
    const button = make("button", { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const first = numeric ? "descending" : "ascending";
      const second = numeric ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === first ? second : first;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const compare = numeric
        ? (a, b) => cellNumber(a, at) - cellNumber(b, at)
        : (a, b) => cellText(a, at).localeCompare(cellText(b, at), undefined, { numeric: true });
      const sign = order === "ascending" ? 1 : -1;
      // What is not known comes last in both directions.
      const isKnown = (row) => (numeric ? !Number.isNaN(cellNumber(row, at)) : !["", "–"].includes(cellText(row, at)));
      const unknown = (a, b) => isKnown(b) - isKnown(a);
      const from = body.querySelector(".apart");
      const after = from ? [...body.rows].slice(from.sectionRowIndex) : [];
      body.append(...wholes().sort(([a], [b]) => unknown(a, b) || sign * (compare(a, b) || 0)).flat(), ...after);
    });
  });
};

// Tables of several numbers: in others, the order of the rows is what they say.
const ofNumbers = (table) => {
  const head = table.tHead?.rows[0].cells ?? [];
  const numbers = [...head].filter((cell) => cell.classList.contains("n")).length;
  const rows = [...(table.tBodies[0]?.rows ?? [])];
  if (table.matches(".top")) return true;
  const isPlain = rows.every((row) => row.cells.length === head.length) && !table.matches(".sortable, .rest table");
  return numbers >= 3 && rows.length >= 3 && isPlain;
};
