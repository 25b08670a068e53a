"use strict";
// What the model found, decoded once. Everything on the page is computed from it.

const report = JSON.parse(document.getElementById("report-data").textContent);
const byId = (id) => document.getElementById(id);

function decode(text, Type) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = letters.charCodeAt(at);
  return new Type(bytes.buffer);
}

// A curve comes as its values and slopes at evenly spaced scores over the range: whatever its shape.
const clusters = report.clusters.map((cluster) => ({
  ...cluster,
  values: decode(cluster.values, Float64Array),
  slopes: decode(cluster.slopes, Float64Array),
  errors: cluster.errors && decode(cluster.errors, Float32Array),
}));
const range = report.range;

function interpolate(samples, score) {
  const last = samples.length - 1;
  const at = ((score - range.low) / (range.high - range.low)) * last;
  const before = Math.min(Math.max(Math.floor(at), 0), last - 1);
  return samples[before] + (at - before) * (samples[before + 1] - samples[before]);
}
const curveValue = (cluster, score) => interpolate(cluster.values, score);
const curveSlope = (cluster, score) => interpolate(cluster.slopes, score);
// How sure the curve is; null where the model does not know.
const curveError = (cluster, score) => cluster.errors && interpolate(cluster.errors, score);

const show = (number) => {
  if (number === null || !Number.isFinite(number)) return "";
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number);
  return String(number.toPrecision(3)).replace(/e\+?/, " × 10^");
};

// Standard errors have two digits: more would not be known.
const showError = (error) => String(Number(error.toPrecision(2)));

// Membership of each point that is drawn, rows summing to 1.
const points = report.picture && (() => {
  const measured = decode(report.picture.measured, Uint8Array);
  const steps = decode(report.picture.probabilities, Uint16Array);
  const size = measured.length, count = clusters.length;
  const share = new Float32Array(size * count);
  const label = new Int16Array(size).fill(-1);
  const confidence = new Float32Array(size);
  for (let point = 0; point < size; point++) {
    if (!measured[point]) continue;
    let sum = 0, best = 0;
    for (let k = 0; k < count; k++) {
      const step = steps[point * count + k];
      sum += step;
      if (step > steps[point * count + best]) best = k;
    }
    for (let k = 0; k < count; k++) {
      share[point * count + k] = steps[point * count + k] / sum;
    }
    label[point] = best;
    confidence[point] = share[point * count + best];
  }
  // When each point is half-way by its own measurements, and the standard error of that.
  const midpoint = report.picture.midpoints && decode(report.picture.midpoints, Float32Array);
  const midpointError = midpoint && decode(report.picture.midpointErrors, Float32Array);
  // The anatomical region of each point: 0 where there is none.
  const region = report.picture.regions && decode(report.picture.regions.of, Uint16Array);
  return { size, share, label, confidence, midpoint, midpointError, region };
})();

const regionOf = (point) =>
  points.region && points.region[point] ? report.picture.regions.names[points.region[point] - 1] : "";

const mixture = (perCluster, point) =>
  perCluster.reduce((sum, value, k) => sum + value * points.share[point * clusters.length + k], 0);

// Colours: lightness falls along each ramp, so that it reads without hue as well. None comes near
// black: a fold in the shade must not look like disease.
const wall = [176, 172, 166];
const ramps = {
  burden: ["#f4efe4", "#f7d58f", "#f0a25f", "#dc6466", "#b3437f", "#843f9a"],
  certainty: ["#f4efe4", "#c3dbd9", "#7fb6c0", "#4a8fae", "#376d9e"],
};
const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const hexOf = (rgb) => "#" + rgb.map((x) => Math.round(x).toString(16).padStart(2, "0")).join("");

function rampTable(stops) {
  const colours = stops.map(channels);
  return Array.from({ length: 256 }, (_, step) => {
    const at = (step / 255) * (colours.length - 1);
    const low = Math.min(Math.floor(at), colours.length - 2);
    return colours[low].map((x, c) => x + (at - low) * (colours[low + 1][c] - x));
  });
}
const tables = { burden: rampTable(ramps.burden), certainty: rampTable(ramps.certainty) };
const clusterColours = clusters.map((cluster) => channels(cluster.colour));

// What can be shown. Which end of a scale is dark is decided where figures decide it as well.
const lowIsDark = report.lowIsDark;
const modes = {
  value: { of: curveValue, text: `Expected ${report.measure} at this score` },
  change: {
    of: (cluster, score) => curveValue(cluster, score) - curveValue(cluster, range.low),
    text: "Expected change since the start of the scale",
  },
  rate: { of: curveSlope, text: "Expected change per unit of score at this score" },
  cluster: { text: "Most probable area, from the earliest (1) to the latest" },
  confidence: { text: "Probability of the most probable area" },
};
for (const mode of [modes.value, modes.change, modes.rate]) {
  let low = Infinity, high = -Infinity;
  for (let step = 0; step <= 200; step++) {
    const score = range.low + ((range.high - range.low) * step) / 200;
    for (const cluster of clusters) {
      const value = mode.of(cluster, score);
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  Object.assign(mode, { low, high: high > low ? high : low + 1 });
}
Object.assign(modes.confidence, { low: 0, high: 1 });
if (points && points.midpoint) {
  const sorted = Array.from(points.midpoint).filter(Number.isFinite).sort((a, b) => a - b);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  const [low, high] = [at(0.02), at(0.98)];
  modes.midpoint = {
    text: "Score at which each vertex is half-way, by its own measurements",
    low, high: high > low ? high : low + 1,
  };
}

// Place of each point on its ramp, 0 to 1; the number of its area in cluster mode; -1: no data.
function levels(name, score) {
  const mode = modes[name], out = new Float32Array(points.size), count = clusters.length;
  if (name === "cluster") return Float32Array.from(points.label);
  if (name === "confidence") {
    return out.map((_, point) => (points.label[point] < 0 ? -1 : points.confidence[point]));
  }
  if (name === "midpoint") {
    return out.map((_, point) => {
      if (points.label[point] < 0) return -1;
      const at = (points.midpoint[point] - mode.low) / (mode.high - mode.low);
      return 1 - Math.min(Math.max(at, 0), 1);
    });
  }
  const perCluster = clusters.map((cluster) => {
    const at = (mode.of(cluster, score) - mode.low) / (mode.high - mode.low);
    return lowIsDark ? 1 - at : at;
  });
  for (let point = 0; point < points.size; point++) {
    if (points.label[point] < 0) {
      out[point] = -1;
      continue;
    }
    let sum = 0;
    for (let k = 0; k < count; k++) sum += points.share[point * count + k] * perCluster[k];
    out[point] = Math.min(Math.max(sum, 0), 1);
  }
  return out;
}

const tableOf = (name) => tables[name === "confidence" ? "certainty" : "burden"];

function colourOf(name, level) {
  if (level < 0) return wall;
  return name === "cluster" ? clusterColours[level] : tableOf(name)[Math.round(level * 255)];
}
