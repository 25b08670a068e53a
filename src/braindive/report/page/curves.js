// Trajectories and the course of the fit, drawn as SVG.

const svgNamespace = "http://www.w3.org/2000/svg";

function element(parent, name, attributes, text) {
  const node = document.createElementNS(svgNamespace, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const out = [];
  for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 * step; at += step) {
    out.push(Math.abs(at) < step * 1e-9 ? 0 : Number(at.toPrecision(6)));
  }
  return out;
}

function frame(svg, [left, right, top, bottom], [x0, x1], [y0, y1], xName, yName) {
  const x = (value) => left + ((value - x0) / (x1 - x0)) * (right - left);
  const y = (value) => bottom - ((value - y0) / (y1 - y0)) * (bottom - top);
  for (const at of ticks(y0, y1, 4)) {
    element(svg, "line", { x1: left, x2: right, y1: y(at), y2: y(at), class: "gridline" });
    element(svg, "text", { x: left - 8, y: y(at) + 4, "text-anchor": "end" },
      at.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 7 }));
  }
  for (const at of ticks(x0, x1, 6)) {
    element(svg, "text", { x: x(at), y: bottom + 32, "text-anchor": "middle" }, String(at));
  }
  element(svg, "text", { x: (left + right) / 2, y: bottom + 52, "text-anchor": "middle", class: "name" }, xName);
  element(svg, "text", { x: 0, y: 12, class: "name" }, yName);
  return { x, y };
}

function makeCurves(onScore, onCluster) {
  const svg = byId("curves"), box = [52, 552, 26, 270];
  const reach = (cluster, sign) => Array.from(cluster.values, (value, step) =>
    value + (cluster.errors ? sign * 1.96 * cluster.errors[step] : 0));
  // Room for the bands, but no more than half the height of the curves: where nobody was seen
  // bands are wide, and would flatten everything else.
  const low = Math.min(...clusters.map((cluster) => Math.min(...cluster.values)));
  const high = Math.max(...clusters.map((cluster) => Math.max(...cluster.values)));
  const room = 0.06 * (high - low) || 1, most = 0.25 * (high - low);
  const bottom = Math.max(Math.min(...clusters.map((c) => Math.min(...reach(c, -1)))), low - most) - room;
  const top = Math.min(Math.max(...clusters.map((c) => Math.max(...reach(c, 1)))), high + most) + room;
  const { x, y } = frame(svg, box, [range.low, range.high], [bottom, top],
    report.scoreName, `Expected ${report.measure}`);
  const inside = (score) => Math.min(Math.max(score, range.low), range.high);
  const people = element(svg, "g", { class: "people" });
  report.people.at.forEach((scores, person) => {
    const at = x(inside(scores[0])), group = report.people.group[person];
    const tick = element(people, "line", { x1: at, x2: at, y1: 273, y2: 284 });
    if (group !== null) tick.setAttribute("stroke", report.people.groups[group].colour);
  });
  const held = (value) => Math.min(Math.max(value, bottom), top);
  const scoreOf = (step) => range.low + ((range.high - range.low) * step) / (clusters[0].values.length - 1);
  const path = (values) => values.map((value, step) => `${x(scoreOf(step)).toFixed(2)} ${y(held(value)).toFixed(2)}`);
  const bands = clusters.map((cluster) => cluster.errors && element(svg, "path", {
    d: `M${path(reach(cluster, 1)).join("L")}L${path(reach(cluster, -1)).reverse().join("L")}Z`,
    class: "band", fill: cluster.colour,
  }));
  const paths = clusters.map((cluster, k) => {
    const d = `M${path(Array.from(cluster.values)).join("L")}`;
    const path_ = element(svg, "path", { d, class: "curve", stroke: cluster.colour });
    element(path_, "title", {}, cluster.name);
    path_.addEventListener("click", (event) => {
      event.stopPropagation();
      onCluster(k);
    });
    return path_;
  });
  const line = element(svg, "line", { y1: box[2], y2: box[3] + 14, class: "cursor" });
  const dots = clusters.map((c) => element(svg, "circle", { r: 4, fill: c.colour, class: "dot" }));
  const place = element(svg, "circle", { r: 7, class: "place", visibility: "hidden" });
  const own = element(svg, "g", { class: "own" });

  function scoreAt(event) {
    const spot = svg.getBoundingClientRect();
    const at = ((event.clientX - spot.left) / spot.width) * 560;
    return inside(range.low + ((at - box[0]) / (box[1] - box[0])) * (range.high - range.low));
  }
  svg.addEventListener("click", (event) => onScore(scoreAt(event)));

  return {
    show(state) {
      const at = x(state.score).toFixed(2);
      line.setAttribute("x1", at);
      line.setAttribute("x2", at);
      clusters.forEach((cluster, k) => {
        dots[k].setAttribute("cx", at);
        dots[k].setAttribute("cy", y(curveValue(cluster, state.score)).toFixed(2));
        paths[k].classList.toggle("faded", state.cluster !== null && state.cluster !== k);
        dots[k].classList.toggle("faded", state.cluster !== null && state.cluster !== k);
        if (bands[k]) bands[k].classList.toggle("faded", state.cluster !== null && state.cluster !== k);
      });
      place.setAttribute("visibility", state.cluster === null ? "hidden" : "visible");
      if (state.cluster !== null) {
        place.setAttribute("cx", at);
        place.setAttribute("cy", y(curveValue(clusters[state.cluster], state.score)).toFixed(2));
      }
      own.replaceChildren();
      if (state.person === null) return;
      const [first, ...later] = report.people.at[state.person], error = report.people.errors.score[state.person];
      if (error !== null) {
        const [from, to] = [first - 1.96 * error, first + 1.96 * error].map((score) => x(inside(score)));
        element(own, "rect", { x: from, width: Math.max(to - from, 1), y: box[2], height: box[3] - box[2], class: "sure" });
      }
      for (const score of [...later, first]) {
        element(own, "circle", { cx: x(inside(score)), cy: 278.5, r: score === first ? 5.5 : 3.5 });
      }
    },
  };
}

function drawObjective() {
  const svg = byId("objective"), values = report.objective;
  const low = Math.min(...values), high = Math.max(...values), room = 0.06 * (high - low) || 1;
  const { x, y } = frame(svg, [92, 552, 26, 180], [1, Math.max(values.length, 2)],
    [low - room, high + room], "Pass over the data", "Objective");
  const d = values.map((v, i) => `${i ? "L" : "M"}${x(i + 1).toFixed(2)} ${y(v).toFixed(2)}`).join("");
  element(svg, "path", { d, class: "curve plain" });
  values.forEach((v, i) => element(svg, "circle", { cx: x(i + 1), cy: y(v), r: 2.5, class: "plain" }));
}
