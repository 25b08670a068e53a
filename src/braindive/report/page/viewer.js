// The brain on the page, whichever way it is drawn.

function makeBrain(onPick, onSeen) {
  const stage = byId("stage"), kinds = { surface: makeSurface, volume: makeSlices };
  let frames = 0;
  function onFrame() {
    if (!frames) requestAnimationFrame(() => setTimeout(() => {
      performance.mark("first-picture");
      onSeen();
    }));
    stage.dataset.frame = String(++frames);
  }
  return kinds[report.picture.kind](onPick, onFrame, onSeen);
}

// What a point is called: its region, and the area it most probably belongs to.
function nameOf(point) {
  const area = points.label[point] < 0 ? "not measured" : clusters[points.label[point]].name;
  return [regionOf(point), area].filter(Boolean).join(" · ");
}
