// What is chosen, in sentences.

const withUnit = (score) => `${show(score)}${report.scoreInYears ? (Math.abs(score) === 1 ? " year" : " years") : ""}`;

// A score in years, in words; nothing where its unit is another.
function tell(score) {
  if (!report.scoreInYears) return "";
  const years = Math.abs(score).toFixed(1);
  if (years === "0.0") return "the earliest area is half-way";
  const when = score < 0 ? "before" : "after";
  return `${years} ${years === "1.0" ? "year" : "years"} ${when} the earliest area is half-way`;
}

// Where a person stands, how sure that is, and how it compares.
function tellPerson(person) {
  const { at, errors, group, groups, columns } = report.people;
  const name = columns[0].cells[person], [first] = at[person], error = errors.score[person];
  const diagnosis = group[person] === null ? "" : ` (${groups[group[person]].name})`;
  const sentences = [`${name}${diagnosis} stands at ${withUnit(first)}${error === null ? "" : ` ± ${showError(error)}`} at the first visit${
    tell(first) && `, ${tell(first)}`}.`];
  if (error === null && report.staging) {
    sentences.push("How sure that is, this model does not know.");
  } else if (error) {
    sentences.push(`With 95 % certainty between ${show(first - 1.96 * error)} and ${show(first + 1.96 * error)}.`);
  }
  if (report.staging) {
    const speed = columns.find((column) => column.name === "Speed").cells[person], own = errors.speed[person];
    sentences.push(`Speed ${show(speed)}${own === null ? "" : ` ± ${showError(own)}`}${report.scoreInYears ? " (1 is the mean of those who are no controls)" : " per year"}.`);
  }
  const behind = at.filter((scores) => scores[0] < first).length;
  sentences.push(`Further along than ${Math.round((100 * behind) / Math.max(at.length - 1, 1))} % of the others.`);
  return sentences.join(" ");
}

function tellCluster(k, score) {
  const cluster = clusters[k], error = curveError(cluster, score);
  const where = cluster.places.length ? ` ${cluster.places.map(placeText).join(", ")}.` : "";
  return `${cluster.name}:${where} Expected ${report.measure} ${show(curveValue(cluster, score))}` +
    `${error === null ? "" : ` ± ${showError(error)}`} at score ${show(score)}; half-way at ${show(cluster.onset)}.`;
}
const placeText = ({ name, share }) => `${name} (${Math.round(100 * share)} %)`;

// A vertex or voxel: its region, its area and what is expected there.
function tellPoint(point, score, where) {
  const region = regionOf(point), start = region ? `${capital(region)} (${where})` : capital(where);
  if (points.label[point] < 0) return `${start}: not measured.`;
  const now = (of) => show(mixture(clusters.map((c) => of(c, score)), point));
  const own = points.midpoint
    ? ` By its own measurements half-way at ${show(points.midpoint[point])} ± ${showError(points.midpointError[point])}.` : "";
  return `${start}: ${clusters[points.label[point]].name}, ${Math.round(100 * points.confidence[point])}% sure. ` +
    `Expected ${report.measure} ${now(curveValue)}, rate ${now(curveSlope)} at score ${show(score)}.${own}`;
}
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
