// The brain on the page: drawn anew for each score, mode and view; turned by hand or by keys.

function makeBrain(onPick) {
  const canvas = byId("canvas"), stage = byId("stage");
  let shown = null, nearest = null, wanted = 0;
  let view = surface && surface.parts[0].side === "right" ? views.right : views.left;
  let shape = surface ? Object.keys(surface.shapes)[0] : null;

  function paint() {
    if (wanted) cancelAnimationFrame(wanted);
    wanted = 0;
    if (surface) {
      fitCanvas(canvas);
      nearest = paintSurface(canvas, shape, view, shown.mode, shown.level);
    } else {
      nearest = paintSlices(canvas, shown.mode, shown.level);
    }
    stage.dataset.frame = String(Number(stage.dataset.frame || 0) + 1);
  }

  // However many wishes there are, one picture for each frame of the screen.
  function refresh() {
    if (!wanted) wanted = requestAnimationFrame(paint);
  }

  function pick(event) {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * canvas.width);
    const row = Math.floor(((event.clientY - box.top) / box.height) * canvas.height);
    const point = nearest[row * canvas.width + column];
    if (point >= 0) onPick(point);
  }

  function turn(across, upwards) {
    const up = unit(view.up), right = unit(cross(view.up, view.eye));
    const eye = rotate(rotate(unit(view.eye), up, -across), right, -upwards);
    view = { ...view, eye, up: rotate(up, right, -upwards) };
    refresh();
  }

  let grip = null, travelled = 0;
  canvas.addEventListener("pointerdown", (event) => {
    grip = [event.clientX, event.clientY];
    travelled = 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const across = event.clientX - grip[0], down = event.clientY - grip[1];
    grip = [event.clientX, event.clientY];
    travelled += Math.abs(across) + Math.abs(down);
    if (surface && travelled > 4) turn(across / 120, -down / 120);
  });
  canvas.addEventListener("pointerup", (event) => {
    grip = null;
    if (travelled <= 4) pick(event);
  });
  canvas.addEventListener("pointercancel", () => (grip = null));
  const keys = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  canvas.addEventListener("keydown", (event) => {
    if (!surface || !keys[event.key]) return;
    event.preventDefault();
    turn(...keys[event.key].map((step) => step * 0.15));
  });
  window.addEventListener("resize", refresh);
  window.addEventListener("beforeprint", paint);

  return {
    show(mode, level) {
      const first = shown === null;
      shown = { mode, level };
      if (first) paint();
      else refresh();
    },
    look(change) {
      if (change.view) view = views[change.view];
      if (change.shape) shape = change.shape;
      refresh();
    },
    describe(point) {
      if (!surface) return `Voxel ${point.toLocaleString("en")}`;
      const part = surface.parts.find((p) => point < p.start + p.size);
      const vertex = part.vertices[point - part.start];
      return `Vertex ${vertex.toLocaleString("en")}, ${part.side} hemisphere`;
    },
  };
}

function rotate(vector, axis, angle) {
  const cosine = Math.cos(angle), sine = Math.sin(angle), side = cross(axis, vector);
  const share = (1 - cosine) * along(vector, 0, axis);
  return vector.map((x, c) => cosine * x + sine * side[c] + share * axis[c]);
}
