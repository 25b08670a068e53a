// The table of people. All text goes in as text, never as HTML.

function makePeople(onPerson) {
  const table = byId("people-table"), search = byId("search"), found = byId("found");
  const columns = report.people.columns, count = report.people.at.length;
  const numeric = columns.map(({ cells }) =>
    cells.some((cell) => typeof cell === "number") &&
    cells.every((cell) => cell === null || typeof cell === "number"));
  const shown = (cell) =>
    cell === null ? "" : typeof cell === "number" ? show(cell) : String(cell);

  const headings = document.createElement("tr");
  let sorted = null, ascending = true;
  const buttons = columns.map(({ name }, column) => {
    const heading = document.createElement("th"), button = document.createElement("button");
    heading.scope = "col";
    heading.classList.toggle("number", numeric[column]);
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => sort(column));
    heading.append(button);
    headings.append(heading);
    return heading;
  });
  table.createTHead().append(headings);

  const body = table.createTBody();
  const texts = [];
  const rows = Array.from({ length: count }, (_, person) => {
    const row = document.createElement("tr");
    row.dataset.person = String(person);
    const words = columns.map(({ cells }) => shown(cells[person]));
    texts.push(words.join("\n").toLowerCase());
    words.forEach((text, column) => {
      const cell = document.createElement(column ? "td" : "th");
      cell.classList.toggle("number", numeric[column]);
      if (column) {
        cell.textContent = text;
        const group = columns[column].name === "diagnosis" ? report.people.group[person] : null;
        if (group !== null) cell.prepend(dotOf(report.people.groups[group].colour));
      } else {
        const button = document.createElement("button");
        cell.scope = "row";
        button.type = "button";
        button.className = "pick";
        button.textContent = text;
        cell.append(button);
      }
      row.append(cell);
    });
    row.addEventListener("click", () => onPerson(person));
    return row;
  });
  body.append(...rows);

  const words = new Intl.Collator("en", { numeric: true });
  function sort(column) {
    ascending = sorted === column ? !ascending : true;
    sorted = column;
    const { cells } = columns[column], sign = ascending ? 1 : -1;
    const order = rows.map((_, person) => person).sort((a, b) => {
      if (cells[a] === null || cells[b] === null) return (cells[a] === null) - (cells[b] === null);
      const by = numeric[column] ? cells[a] - cells[b] : words.compare(String(cells[a]), String(cells[b]));
      return sign * by || a - b;
    });
    buttons.forEach((heading, index) => {
      if (index === column) heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    });
    body.append(...order.map((person) => rows[person]));
  }

  function filter() {
    const wanted = search.value.trim().toLowerCase();
    let left = 0;
    rows.forEach((row, person) => {
      row.hidden = !texts[person].includes(wanted);
      left += !row.hidden;
    });
    found.textContent = left === count ? `${count} people` : `${left} of ${count} people`;
  }
  search.addEventListener("input", filter);
  filter();

  return {
    show(state) {
      rows.forEach((row, person) => {
        row.classList.toggle("chosen", person === state.person);
        row.setAttribute("aria-selected", String(person === state.person));
      });
    },
  };
}

function dotOf(colour) {
  const dot = document.createElement("span");
  dot.className = "group";
  dot.style.background = colour;
  return dot;
}
