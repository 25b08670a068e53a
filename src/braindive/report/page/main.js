// What is chosen, and who has to know.

const state = { score: range.low, mode: "value", point: null, cluster: null, person: null };
let people = null; // made after the first picture: a long table takes a while
const slider = byId("score"), play = byId("play"), chooser = byId("who");
const brain = points && makeBrain(
  (point) => choose({ point, cluster: Math.max(points.label[point], 0) }), showPeople);
const curves = makeCurves((score) => choose({ score }), (cluster) => choose({ cluster, point: null }));

function choose(change) {
  Object.assign(state, change);
  state.score = Math.min(Math.max(state.score, range.low), range.high);
  slider.value = String(state.score);
  byId("score-shown").textContent = show(state.score);
  byId("score-words").textContent = tell(state.score);
  slider.setAttribute("aria-valuetext", tell(state.score) || show(state.score));
  if (brain && ("score" in change || "mode" in change || "point" in change)) brain.show(state);
  curves.show(state);
  if (people && "person" in change) people.show(state);
  chooser.value = state.person === null ? "" : String(state.person);
  showAreas();
  showChoices();
  keepLink();
}

// Not at every frame of a film: browsers refuse addresses that change too often.
let linkRequest = 0;
function keepLink() {
  clearTimeout(linkRequest);
  linkRequest = setTimeout(() => writeLink(state, brain ? brain.kept() : {}), frameRequest ? 1000 : 150);
}

function showAreas() {
  for (const row of byId("areas").tBodies[0].rows) {
    const index = Number(row.dataset.cluster), cluster = clusters[index], error = curveError(cluster, state.score);
    row.querySelector(".onset").textContent = show(cluster.onset);
    row.querySelector(".value").textContent = show(curveValue(cluster, state.score));
    row.querySelector(".value").dataset.error = error === null ? "" : ` ± ${showError(error)}`;
    row.querySelector(".rate").textContent = show(curveSlope(cluster, state.score));
    row.classList.toggle("chosen", index === state.cluster);
  }
}

function showChoices() {
  const place = state.point !== null ? tellPoint(state.point, state.score, brain.describe(state.point))
    : state.cluster !== null ? tellCluster(state.cluster, state.score) : "";
  byId("vertex").textContent = place || byId("vertex").dataset.hint;
  byId("clear-place").hidden = !place;
  byId("person").textContent = state.person === null ? byId("person").dataset.hint : tellPerson(state.person);
  byId("clear-person").hidden = state.person === null;
}

const scaleColours = (mode) => mode === "cluster"
  ? clusters.map((c) => c.colour) : tableOf(mode).filter((_, i) => i % 15 === 0).map(hexOf);

function showScale() {
  const mode = modes[state.mode], bar = byId("scale-bar"), isCluster = state.mode === "cluster";
  const colours = scaleColours(state.mode);
  const reversed = state.mode === "midpoint" || (!isCluster && state.mode !== "confidence" && lowIsDark);
  bar.style.background = isCluster
    ? `linear-gradient(to right, ${colours.flatMap((c, k) => [`${c} ${(100 * k) / colours.length}%`, `${c} ${(100 * (k + 1)) / colours.length}%`])})`
    : `linear-gradient(to right, ${colours})`;
  const ends = isCluster ? ["earliest", "latest"] : [mode.low, mode.high].map(show);
  if (reversed) ends.reverse();
  [byId("scale-low").textContent, byId("scale-high").textContent] = ends;
  byId("scale-text").textContent = `${mode.text}.`;
  const chosen = document.querySelector(`input[name=mode][value=${state.mode}]`);
  if (chosen) chosen.checked = true;
}

let frameRequest = 0;
function stop() {
  cancelAnimationFrame(frameRequest);
  frameRequest = 0;
  play.setAttribute("aria-pressed", "false");
  play.lastChild.textContent = " Play";
  play.firstChild.textContent = "▶";
}
function start() {
  const seconds = 10, from = state.score >= range.high - 1e-9 ? range.low : state.score;
  let begun = null;
  play.setAttribute("aria-pressed", "true");
  play.lastChild.textContent = " Pause";
  play.firstChild.textContent = "❚❚";
  const step = (now) => {
    begun = begun === null ? now : begun;
    const score = from + ((range.high - range.low) * (now - begun)) / (1000 * seconds);
    choose({ score });
    if (score >= range.high) stop();
    else frameRequest = requestAnimationFrame(step);
  };
  frameRequest = requestAnimationFrame(step);
}

const choosePerson = (person) => {
  stop();
  choose(person === null ? { person } : { person, score: report.people.at[person][0] });
};
function showPeople() {
  // A second click on the same person takes the choice back.
  people ??= makePeople((person) => choosePerson(person === state.person ? null : person));
  people.show(state);
}

slider.min = String(range.low);
slider.max = String(range.high);
slider.step = String((range.high - range.low) / 200);
slider.addEventListener("input", () => {
  stop();
  choose({ score: Number(slider.value) });
});
play.addEventListener("click", () => (frameRequest ? stop() : start()));
for (const row of byId("areas").tBodies[0].rows) {
  row.addEventListener("click", () => {
    const cluster = Number(row.dataset.cluster);
    choose({ cluster: state.cluster === cluster && state.point === null ? null : cluster, point: null });
  });
}
chooser.append(...report.people.columns[0].cells.map((name, person) => new Option(name, String(person))));
chooser.addEventListener("change", () => choosePerson(chooser.value === "" ? null : Number(chooser.value)));
byId("clear-person").addEventListener("click", () => choosePerson(null));
byId("clear-place").addEventListener("click", () => choose({ point: null, cluster: null }));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") choose({ person: null, point: null, cluster: null });
});
byId("save-people").addEventListener("click", savePeople);
byId("save-areas").addEventListener("click", () => saveAreas(state.score));
byId("copy-link").addEventListener("click", (event) => {
  writeLink(state, brain ? brain.kept() : {});
  copyText(location.href, event.currentTarget);
});
byId("copy-methods").addEventListener("click", (event) => copyText(byId("methods-text").textContent, event.currentTarget));
const legend = byId("diagnoses");
legend.append(...report.people.groups.flatMap(({ name, colour }) => {
  const entry = document.createElement("span");
  entry.append(dotOf(colour), name);
  return [entry, " "];
}));
drawObjective();

// Open half-way: a brain with something to see on it; or where a link says.
const opening = clusters.map((c) => c.onset).sort((a, b) => a - b)[Math.floor((clusters.length - 1) / 2)];
function open() {
  const { change, look } = readLink();
  if (brain) brain.look(look);
  if (look.shape && byId("shape")) byId("shape").value = look.shape;
  choose({ score: opening, mode: "value", point: null, cluster: null, person: null, ...change });
  if (brain) showScale();
}
open();
// Other parts of an address are places on the page.
window.addEventListener("hashchange", () => location.hash.includes("=") && open());
if (brain) {
  byId("modes").addEventListener("change", (event) => {
    choose({ mode: event.target.value });
    showScale();
  });
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      brain.look({ view: button.dataset.view });
      keepLink();
    });
  }
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => brain.look({ zoom: Number(button.dataset.zoom) }));
  }
  if (byId("shape")) {
    byId("shape").addEventListener("change", (event) => {
      brain.look({ shape: event.target.value });
      keepLink();
    });
  }
  if (byId("cover")) byId("cover").addEventListener("input", (event) => brain.look({ cover: Number(event.target.value) }));
  byId("save-picture").addEventListener("click", () => savePicture(brain, state));
} else {
  requestAnimationFrame(() => setTimeout(showPeople));
}
