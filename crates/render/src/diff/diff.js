
// Tables of numbers are sorted; long ones are searched as well. A row stays with what it is a part of, and with its parts.
(() => {
  const LONG = 10;
  const searched = (table) => {
    const [input, found] = filterField();
    const rows = [...table.tBodies[0].rows];
    const groups = [];
    for (const row of rows) {
      if (isPart(row)) groups.at(-1)?.push(row);
      else groups.push([row]);
    }
    const full = (row) => `${row.textContent} ${[...row.querySelectorAll("[title]")].map((named) => named.title).join(" ")}`;
    const texts = groups.map((group) => [group, group.map(full).join(" ").toLowerCase()]);
    input.addEventListener("input", () => {
      const words = filterWords(input);
      for (const [group, text] of texts) {
        for (const row of group) row.hidden = !words.every((word) => text.includes(word));
      }
      const left = rows.filter((row) => !row.hidden).length;
      found.textContent = !words.length ? "" : left ? `${left} of ${rows.length} rows` : "No row has all of these words";
    });
    table.closest(".table").before(make("div", { className: "filter" }, input, found));
  };
  for (const table of [...document.querySelectorAll("table")].filter(ofNumbers)) {
    sorts(table);
    if (table.tBodies[0].rows.length > LONG) searched(table);
  }
})();
