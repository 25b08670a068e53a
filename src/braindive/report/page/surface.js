// The cortex: which views there are, which colour each vertex has, and what the hand and keys do.

// Where the viewer stands, and what is up; the rest follows.
const from = (towards, upwards) => ({ towards, upwards, across: cross(upwards, towards) });
const standpoints = {
  left: from([-1, 0, 0], [0, 0, 1]),
  right: from([1, 0, 0], [0, 0, 1]),
  above: from([0, 0, 1], [0, 1, 0]),
  below: from([0, 0, -1], [0, 1, 0]),
};
const directions = { L: [-1, 0, 0], R: [1, 0, 0], P: [0, -1, 0], A: [0, 1, 0], I: [0, 0, -1], S: [0, 0, 1] };
const foldShade = 0.11; // how much darker the depth of a fold is
const mostZoom = 6;

function viewsOf(sides) {
  const lateral = (side) => ({ title: `${side === "left" ? "Left" : "Right"} lateral`, sides: [side], stand: standpoints[side] });
  const medial = (side) => ({
    title: `${side === "left" ? "Left" : "Right"} medial`, sides: [side], stand: standpoints[side === "left" ? "right" : "left"],
  });
  if (report.picture.flat) return { all: sides.map((side) => ({ ...lateral(side), title: capital(side) })) };
  const all = (title, stand) => [{ title, sides, stand }];
  return {
    all: [...sides.map(lateral), ...sides.map(medial)],
    ...Object.fromEntries(sides.flatMap((side) => [[side, [lateral(side)]], [`${side}-medial`, [medial(side)]]])),
    above: all("From above", standpoints.above), below: all("From below", standpoints.below),
  };
}

function makeSurface(onPick, onFrame, onFailure) {
  const canvas = byId("canvas"), stage = byId("stage"), shapes = report.picture.shapes;
  const parts = readParts(), views = viewsOf(parts.map((part) => part.side));
  let shape = shapes.Inflated ? "Inflated" : Object.keys(shapes)[0];
  let zoom = 1, wanted = 0, shown = null, meshes = null, panels = [], ring = null, viewName = "all";

  function giveUp(reason) {
    meshes = null;
    byId("no-brain").textContent = reason;
    byId("no-brain").hidden = false;
    canvas.hidden = true;
    writeMarks(stage, []);
    onFailure();
  }

  function start() {
    // On few cores there may be no graphics card either, and then smooth edges cost too much.
    const antialias = navigator.hardwareConcurrency >= 4;
    const gl = canvas.getContext("webgl2", { alpha: true, antialias });
    meshes = gl && makeMeshes(gl);
    if (!meshes) {
      giveUp("The brain is not drawn, because this browser offers no WebGL 2; everything else on this page works.");
      return;
    }
    canvas.addEventListener("webglcontextlost", () =>
      giveUp("The browser took its graphics away from this page; load it again to see the brain."));
    build();
    look("all");
    new ResizeObserver(refresh).observe(stage);
  }

  function build() {
    const steps = decode(shapes[shape].points, Int16Array), unit = shapes[shape].radius / 32767;
    for (const part of parts) {
      const own = steps.subarray(3 * part.start, 3 * (part.start + part.size));
      if (part.mesh) part.mesh.remove();
      part.mesh = meshes.add(Float32Array.from(own, (step) => step * unit), part.faces);
      part.box = [0, 1, 2].map((axis) => {
        let low = Infinity, high = -Infinity;
        for (let at = axis; at < part.mesh.positions.length; at += 3) {
          low = Math.min(low, part.mesh.positions[at]);
          high = Math.max(high, part.mesh.positions[at]);
        }
        return [low, high];
      });
    }
  }

  function look(name) {
    viewName = views[name] ? name : "all";
    panels = views[viewName].map((view) => ({ ...view }));
    zoom = 1;
    for (const button of document.querySelectorAll("[data-view]")) {
      button.setAttribute("aria-pressed", String(button.dataset.view === viewName));
    }
    refresh();
  }

  // Panels side by side or in rows, all at the same scale, which lets the largest fill its panel.
  function layOut() {
    const [width, height] = [stage.clientWidth, stage.clientHeight];
    const columns = panels.length === 4 ? 2 : panels.length === 2 && width > 1.2 * height ? 2 : 1;
    const rows = panels.length / columns;
    let perPixel = 0;
    panels.forEach((panel, index) => {
      Object.assign(panel, {
        width: width / columns, height: height / rows,
        left: ((index % columns) * width) / columns, top: (Math.floor(index / columns) * height) / rows,
        parts: parts.filter((part) => panel.sides.includes(part.side)),
      });
      const box = [0, 1, 2].map((axis) => [
        Math.min(...panel.parts.map((part) => part.box[axis][0])), Math.max(...panel.parts.map((part) => part.box[axis][1]))]);
      panel.middle = box.map(([low, high]) => (low + high) / 2);
      const size = box.map(([low, high]) => high - low);
      panel.radius = Math.hypot(...size) / 2;
      const extent = (axis) => Math.abs(size[0] * axis[0]) + Math.abs(size[1] * axis[1]) + Math.abs(size[2] * axis[2]);
      const own = views[viewName][index].stand;
      perPixel = Math.max(perPixel, extent(own.across) / (panel.width - 44), extent(own.upwards) / (panel.height - 34));
    });
    for (const panel of panels) panel.perPixel = perPixel / zoom;
  }

  const placeOf = (panel, mesh, vertex) => {
    const away = [0, 1, 2].map((axis) => mesh.positions[3 * vertex + axis] - panel.middle[axis]);
    return [
      panel.left + panel.width / 2 + dot(away, panel.stand.across) / panel.perPixel,
      panel.top + panel.height / 2 - dot(away, panel.stand.upwards) / panel.perPixel,
    ];
  };

  function paint() {
    wanted = 0;
    if (!meshes || !shown || !stage.clientWidth) return;
    const dpr = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = [stage.clientWidth, stage.clientHeight].map((side) => Math.round(side * dpr));
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    layOut();
    colour();
    meshes.begin(width, height, shown.mode === "cluster");
    for (const panel of panels) {
      const part = {
        left: panel.left * dpr, bottom: height - (panel.top + panel.height) * dpr,
        width: panel.width * dpr, height: panel.height * dpr,
      };
      meshes.draw(part, panel.stand, panel.middle, panel.perPixel / dpr, panel.radius, panel.parts.map((each) => each.mesh));
    }
    writeMarks(stage, marksOf());
    showRing();
    onFrame();
  }

  let painted = "";
  function colour() {
    const now = `${shown.mode} ${shown.score} ${shape}`;
    if (now === painted) return;
    painted = now;
    const level = levels(shown.mode, shown.score);
    for (const { start, size, sulci, mesh } of parts) {
      for (let vertex = 0; vertex < size; vertex++) {
        const rgb = colourOf(shown.mode, level[start + vertex]);
        const shade = sulci ? 1 - (foldShade * sulci[vertex]) / 255 : 1;
        for (let c = 0; c < 3; c++) mesh.colours[3 * vertex + c] = rgb[c] * shade;
      }
      mesh.recolour();
    }
  }

  // Title of each panel, and the directions that its edges point to.
  function marksOf() {
    return panels.flatMap((panel) => {
      const found = [{ text: panel.title, left: panel.left + 10, top: panel.top + 6, kind: "title" }];
      for (const [name, direction] of report.picture.flat ? [] : Object.entries(directions)) {
        const [right, up] = [dot(direction, panel.stand.across), dot(direction, panel.stand.upwards)];
        const [x, y] = [panel.left + panel.width / 2, panel.top + panel.height / 2];
        if (Math.abs(right) > 0.8) {
          found.push({ text: name, left: x + Math.sign(right) * (panel.width / 2 - 12), top: y, kind: "mark" });
        } else if (Math.abs(up) > 0.8 && panel.width > 220) { // else over the title
          found.push({ text: name, left: x, top: y - Math.sign(up) * (panel.height / 2 - 11), kind: "mark" });
        }
      }
      return found;
    });
  }

  // However many wishes there are, one picture for each frame of the screen.
  function refresh() {
    if (!wanted) wanted = requestAnimationFrame(paint);
  }

  const panelAt = (x, y) =>
    panels.find((p) => x >= p.left && x < p.left + p.width && y >= p.top && y < p.top + p.height);

  // The vertex under a point of the stage: the nearest corner of the foremost triangle there.
  function vertexAt(x, y) {
    const panel = panelAt(x, y);
    if (!panel) return -1;
    const { across, upwards, towards } = panel.stand;
    const goal = [
      (x - panel.left - panel.width / 2) * panel.perPixel + dot(panel.middle, across),
      -(y - panel.top - panel.height / 2) * panel.perPixel + dot(panel.middle, upwards),
    ];
    let best = -1, nearest = -Infinity;
    for (const { start, mesh: { positions, faces } } of panel.parts) {
      const count = positions.length / 3, seen = new Float32Array(3 * count);
      for (let vertex = 0; vertex < count; vertex++) {
        const at = [positions[3 * vertex], positions[3 * vertex + 1], positions[3 * vertex + 2]];
        seen[3 * vertex] = dot(at, across) - goal[0];
        seen[3 * vertex + 1] = dot(at, upwards) - goal[1];
        seen[3 * vertex + 2] = dot(at, towards);
      }
      for (let at = 0; at < faces.length; at += 3) {
        const [a, b, c] = [3 * faces[at], 3 * faces[at + 1], 3 * faces[at + 2]];
        // Weights of the corners at the goal; all of one sign inside the triangle.
        const u = seen[b] * seen[c + 1] - seen[b + 1] * seen[c];
        const v = seen[c] * seen[a + 1] - seen[c + 1] * seen[a];
        const w = seen[a] * seen[b + 1] - seen[a + 1] * seen[b];
        if (!((u >= 0 && v >= 0 && w >= 0) || (u <= 0 && v <= 0 && w <= 0)) || u + v + w === 0) continue;
        const depth = (u * seen[a + 2] + v * seen[b + 2] + w * seen[c + 2]) / (u + v + w);
        if (depth <= nearest) continue;
        nearest = depth;
        const [ua, va, wa] = [u, v, w].map(Math.abs);
        best = start + (ua >= va && ua >= wa ? a : va >= wa ? b : c) / 3;
      }
    }
    return best;
  }

  // A ring around the chosen vertex in every panel in which it is in front.
  function showRing() {
    const rings = [];
    const part = shown.point !== null && parts.find((each) => shown.point < each.start + each.size);
    for (const panel of part ? panels.filter((each) => each.parts.includes(part)) : []) {
      const [x, y] = placeOf(panel, part.mesh, shown.point - part.start);
      const front = panelAt(x, y) === panel ? vertexAt(x, y) : -1;
      if (front < part.start || front >= part.start + part.size) continue;
      const { positions } = part.mesh, [a, b] = [front, shown.point].map((each) => 3 * (each - part.start));
      const away = Math.hypot(...[0, 1, 2].map((axis) => positions[a + axis] - positions[b + axis]));
      if (away < 6) rings.push({ left: x, top: y, kind: "ring", text: "" }); // mm: about two neighbours
    }
    ring = rings;
    writeMarks(stage, rings, "ring");
  }

  const within = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const rotated = (a, b, angle) => [0, 1, 2].map((axis) => a[axis] * Math.cos(angle) + b[axis] * Math.sin(angle));
  function turn(panel, across, upwards) {
    if (!panel) return;
    const { stand } = panel, [x, y] = [across, upwards].map((degrees) => (degrees * Math.PI) / 180);
    const right = rotated(stand.across, stand.towards, x), before = rotated(stand.towards, stand.across, -x);
    panel.stand = {
      across: right, upwards: rotated(stand.upwards, before, y), towards: rotated(before, stand.upwards, -y),
    };
    panel.title = "Turned";
    refresh();
  }
  function magnify(factor) {
    zoom = Math.min(Math.max(zoom * factor, 0.6), mostZoom);
    refresh();
  }

  watchHand(canvas, {
    pick: (event) => {
      const found = meshes ? vertexAt(...within(event)) : -1;
      if (found >= 0) onPick(found);
    },
    hover: (event) => {
      const [x, y] = within(event), found = meshes ? vertexAt(x, y) : -1;
      showHover(found < 0 ? "" : nameOf(found), x, y);
    },
    turn: (event, across, down) => turn(panelAt(...within(event)), across / 2, -down / 2),
    magnify,
    keys: {
      ArrowLeft: () => turn(panels[0], -8, 0), ArrowRight: () => turn(panels[0], 8, 0),
      ArrowUp: () => turn(panels[0], 0, 8), ArrowDown: () => turn(panels[0], 0, -8),
      "+": () => magnify(1.15), "=": () => magnify(1.15), "-": () => magnify(1 / 1.15),
    },
  });

  start();
  return {
    show(state) {
      shown = { ...state };
      refresh();
    },
    look(change) {
      if (change.view) look(change.view);
      if (change.zoom) magnify(change.zoom);
      if (change.shape && shapes[change.shape]) {
        shape = change.shape;
        painted = "";
        if (meshes) build();
        refresh();
      }
    },
    // What is on the stage now, for a picture to keep.
    snapshot() {
      if (!meshes) return null;
      paint();
      return { canvas, marks: [...marksOf(), ...ring], width: stage.clientWidth, height: stage.clientHeight };
    },
    kept: () => ({ view: viewName, shape: Object.keys(shapes).length > 1 ? shape : null }),
    describe(point) {
      if (report.picture.ofRegions) return "a region of the table";
      const { side, start, vertices } = parts.find((part) => point < part.start + part.size);
      return `vertex ${vertices[point - start].toLocaleString("en")}, ${side} hemisphere`;
    },
  };
}

function readParts() {
  let start = 0;
  return report.picture.parts.map((part) => {
    const ready = {
      ...part, start,
      faces: Uint32Array.from(decode(part.faces, Uint16Array)),
      vertices: decode(part.vertices, Uint32Array),
      sulci: part.sulci && decode(part.sulci, Uint8Array),
    };
    start += part.size;
    return ready;
  });
}
