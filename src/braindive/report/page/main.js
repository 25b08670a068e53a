// What is chosen, and who has to know.

const state = { score: range.low, mode: "value", point: null, cluster: null, person: null };
let people = null; // made after the first picture: a long table takes a while
const slider = byId("score"), play = byId("play");
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
  showAreas();
  showChoices();
}

// A score in years, in words; nothing where its unit is another.
function tell(score) {
  if (!report.scoreInYears) return "";
  const years = Math.abs(score).toFixed(1);
  if (years === "0.0") return "the earliest area is half-way";
  const when = score < 0 ? "before" : "after";
  return `${years} ${years === "1.0" ? "year" : "years"} ${when} the earliest area is half-way`;
}

function showAreas() {
  for (const row of byId("areas").tBodies[0].rows) {
    const index = Number(row.dataset.cluster), cluster = clusters[index];
    row.querySelector(".onset").textContent = show(cluster.onset);
    row.querySelector(".value").textContent = show(curveValue(cluster, state.score));
    row.querySelector(".rate").textContent = show(curveSlope(cluster, state.score));
    row.classList.toggle("chosen", index === state.cluster);
  }
}

function ownTime(point) {
  if (!points.midpoint) return "";
  const error = show(points.midpointError[point]);
  return ` By its own measurements half-way at ${show(points.midpoint[point])} ± ${error}.`;
}

function showChoices() {
  if (state.point !== null) {
    const now = (of) => show(mixture(clusters.map((c) => of(c, state.score)), state.point));
    byId("vertex").textContent = points.label[state.point] < 0
      ? `${brain.describe(state.point)}: not measured.`
      : `${brain.describe(state.point)}: ${clusters[state.cluster].name}, ` +
        `${Math.round(100 * points.confidence[state.point])}% sure. Expected value ` +
        `${now(curveValue)}, rate ${now(curveSlope)} at score ${show(state.score)}.` + ownTime(state.point);
  } else if (state.cluster !== null) {
    byId("vertex").textContent = `${clusters[state.cluster].name}: expected value ` +
      `${show(curveValue(clusters[state.cluster], state.score))} at score ${show(state.score)}.`;
  }
  byId("person").textContent = state.person === null ? "" : people.describe(state.person);
}

function showScale() {
  const mode = modes[state.mode], bar = byId("scale-bar"), isCluster = state.mode === "cluster";
  const colours = isCluster ? clusters.map((c) => c.colour) : tableOf(state.mode).filter((_, i) => i % 15 === 0).map(hexOf);
  const reversed = state.mode === "midpoint" || (!isCluster && state.mode !== "confidence" && lowIsDark);
  bar.style.background = isCluster
    ? `linear-gradient(to right, ${colours.flatMap((c, k) => [`${c} ${(100 * k) / colours.length}%`, `${c} ${(100 * (k + 1)) / colours.length}%`])})`
    : `linear-gradient(to right, ${colours})`;
  const ends = isCluster ? ["earliest", "latest"] : [mode.low, mode.high].map(show);
  if (reversed) ends.reverse();
  [byId("scale-low").textContent, byId("scale-high").textContent] = ends;
  byId("scale-text").textContent = `${mode.text}.`;
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

slider.min = String(range.low);
slider.max = String(range.high);
slider.step = String((range.high - range.low) / 200);
slider.addEventListener("input", () => {
  stop();
  choose({ score: Number(slider.value) });
});
play.addEventListener("click", () => (frameRequest ? stop() : start()));
for (const row of byId("areas").tBodies[0].rows) {
  row.addEventListener("click", () => choose({ cluster: Number(row.dataset.cluster), point: null }));
}
drawObjective();
// Open half-way: a brain with something to see on it.
const opening = clusters.map((c) => c.onset).sort((a, b) => a - b)[Math.floor((clusters.length - 1) / 2)];
choose({ score: opening });
if (brain) {
  showScale();
  byId("modes").addEventListener("change", (event) => {
    choose({ mode: event.target.value });
    showScale();
  });
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => brain.look({ view: button.dataset.view }));
  }
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => brain.look({ zoom: Number(button.dataset.zoom) }));
  }
  if (byId("shape")) byId("shape").addEventListener("change", (event) => brain.look({ shape: event.target.value }));
}
if (!brain) requestAnimationFrame(() => setTimeout(showPeople));

function showPeople() {
  people ??= makePeople((person) => {
    stop();
    choose({ person, score: report.people.at[person][0] });
  });
}
