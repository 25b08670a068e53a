// What can be taken away: a picture, tables, and a link that keeps what is chosen.

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A cell of a CSV file. A text that a spreadsheet would take for a formula is marked as text.
function csvCell(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "number") return String(cell);
  const text = /^[=+\-@\t\r]/.test(String(cell)) ? `'${cell}` : String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
const csvOf = (rows) => new Blob(["\ufeff", ...rows.map((row) => `${row.map(csvCell).join(",")}\r\n`)], { type: "text/csv" });

function savePeople() {
  const { columns, at } = report.people;
  download("people.csv", csvOf([columns.map((c) => c.name), ...at.map((_, person) => columns.map((c) => c.cells[person]))]));
}

function saveAreas(score) {
  const rows = clusters.map((cluster) => [
    cluster.name, cluster.share, cluster.onset, score, curveValue(cluster, score), curveError(cluster, score),
    curveSlope(cluster, score), cluster.places.map(placeText).join("; ")]);
  const names = ["area", "share_of_vertices", "half_way_at", "score", "value", "value_se", "rate", "regions"];
  download("areas.csv", csvOf([names, ...rows]));
}

// The brain with its words and its scale, on white paper.
function savePicture(brain, state) {
  const seen = brain.snapshot();
  if (!seen) return;
  const { canvas, marks, width, height } = seen, ratio = canvas.width / width, margin = 78;
  const sheet = document.createElement("canvas");
  [sheet.width, sheet.height] = [canvas.width, Math.round((height + margin + 34) * ratio)];
  const pen = sheet.getContext("2d");
  pen.scale(ratio, ratio);
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, 0, width, height + margin + 34);
  pen.drawImage(canvas, 0, 34, width, height);
  pen.fillStyle = "#23262b";
  pen.font = "600 15px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.fillText(`${byId("scale-text").textContent} ${report.scoreName}: ${show(state.score)}`, 12, 18, width - 24);
  for (const mark of marks) {
    pen.font = `${mark.kind === "mark" ? "600 " : ""}13px system-ui, sans-serif`;
    pen.textAlign = mark.kind === "mark" ? "center" : "left";
    if (mark.kind === "ring") {
      pen.beginPath();
      pen.arc(mark.left, mark.top + 34, 8, 0, 2 * Math.PI);
      pen.lineWidth = 2;
      pen.strokeStyle = "#0078c8";
      pen.stroke();
    } else {
      pen.fillText(mark.text, mark.left, mark.top + 34 + (mark.kind === "title" ? 9 : 0));
    }
  }
  const colours = state.mode === "cluster" ? scaleColours(state.mode) : tableOf(state.mode).map(hexOf), from = 90, wide = width - 180, top = height + 50;
  colours.forEach((colour, index) => {
    pen.fillStyle = colour;
    pen.fillRect(from + (wide * index) / colours.length, top, wide / colours.length + 0.6, 14);
  });
  pen.fillStyle = "#23262b";
  pen.textAlign = "right";
  pen.fillText(byId("scale-low").textContent, from - 8, top + 7);
  pen.textAlign = "left";
  pen.fillText(byId("scale-high").textContent, from + wide + 8, top + 7);
  const name = `brain-${state.mode}-${state.score.toFixed(2)}.png`;
  sheet.toBlob((blob) => download(name, blob), "image/png");
}

// The part of the address after "#" says what is chosen. People are numbered: no id is in a link.
function writeLink(state, kept) {
  const parts = {
    score: state.score.toPrecision(6), show: state.mode, ...kept, area: state.point === null ? state.cluster : null,
    vertex: state.point, person: state.person,
  };
  const text = Object.entries(parts).filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
  // A page inside a frame of a notebook may have no address of its own.
  try {
    if (`#${text}` !== location.hash) history.replaceState(null, "", `#${text}`);
  } catch { /* the link stays as it was */ }
}

function readLink() {
  const parts = new URLSearchParams(location.hash.slice(1)), change = {}, look = {};
  const number = (key, count) => {
    const value = Number(parts.get(key));
    return parts.get(key) !== null && Number.isInteger(value) && value >= 0 && value < count ? value : null;
  };
  const score = Number(parts.get("score"));
  if (parts.get("score") && Number.isFinite(score)) change.score = score;
  if (Object.hasOwn(modes, parts.get("show") ?? "")) change.mode = parts.get("show");
  const [area, vertex, person] = [number("area", clusters.length), number("vertex", points ? points.size : 0), number("person", report.people.at.length)];
  if (area !== null) change.cluster = area;
  if (vertex !== null) Object.assign(change, { point: vertex, cluster: Math.max(points.label[vertex], 0) });
  if (person !== null) change.person = person;
  if (parts.get("view")) look.view = parts.get("view");
  if (parts.get("shape")) look.shape = parts.get("shape");
  return { change, look };
}

async function copyText(text, button) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  document.body.append(field);
  field.select();
  let done = document.execCommand("copy");
  field.remove();
  // Browsers that no longer know the command have a clipboard, which a page in a frame may not have.
  if (!done && navigator.clipboard) done = await navigator.clipboard.writeText(text).then(() => true, () => false);
  const before = button.dataset.name ??= button.textContent;
  button.textContent = done ? "Copied" : "Not copied: select it by hand";
  setTimeout(() => { button.textContent = before; }, 2000);
}
