// The cortex, drawn by NiiVue. This file says which colour each vertex has, which way to look, and
// what the hand and the keys do; NiiVue's own keys and touches would cut planes and hold the page.

const views = {
  left: { azimuth: 90, elevation: 0 },
  right: { azimuth: 270, elevation: 0 },
  "left-medial": { azimuth: 270, elevation: 0, only: "left" },
  "right-medial": { azimuth: 90, elevation: 0, only: "right" },
  top: { azimuth: 0, elevation: 90, from: "above" },
  below: { azimuth: 180, elevation: -90, from: "above" },
};
const chosenColour = [0, 200, 255];
const exposure = 0.8; // NiiVue's lamp stands behind the eye and gives 1.4: colours as in the legend
const mostZoom = 3, mostScale = 4.6; // beyond, NiiVue cuts off the front of the brain

function makeSurface(onPick, onFrame, onFailure) {
  const canvas = byId("canvas"), stage = byId("stage"), shapes = report.picture.shapes;
  const parts = readParts();
  let shape = Object.keys(shapes)[0], zoom = 1, wanted = 0, shown = null, viewer = null;
  let view = { ...views[parts.length === 1 ? parts[0].side : "left"] };

  function giveUp(reason) {
    viewer = null;
    byId("no-brain").textContent = reason;
    byId("no-brain").hidden = false;
    canvas.hidden = true;
    onFailure();
  }

  async function start() {
    // NiiVue goes on with this context. On few cores there may be no graphics card either, and then
    // smooth edges cost too much.
    const antialias = navigator.hardwareConcurrency >= 4;
    if (!canvas.getContext("webgl2", { alpha: true, antialias })) {
      giveUp("The brain is not drawn, because this browser offers no WebGL 2; everything else on this page works.");
      return;
    }
    canvas.addEventListener("webglcontextlost", () =>
      giveUp("The browser took its graphics away from this page; load it again to see the brain."));
    const attached = new niivue.Niivue({
      backColor: [0, 0, 0, 0], dragAndDropEnabled: false, interactive: false, logLevel: "error",
      sliceType: niivue.SLICE_TYPE.RENDER,
    }).attachToCanvas(canvas, antialias);
    stage.style.backgroundColor = ""; // NiiVue made it black
    viewer = await attached;
    build();
    paint();
    new ResizeObserver(look).observe(stage);
  }

  function build() {
    const steps = decode(shapes[shape].points, Int16Array), unit = shapes[shape].radius / 32767;
    for (const part of parts) {
      const own = steps.subarray(3 * part.start, 3 * (part.start + part.size));
      const points = Float32Array.from(own, (step) => step * unit);
      const colours = new Uint8Array(4 * part.size).fill(255);
      if (part.mesh) part.mesh.unloadMesh(viewer.gl);
      part.mesh = new niivue.NVMesh(points, part.faces, part.side, colours, 1, true, viewer.gl);
      part.mesh.meshShaderIndex = viewer.meshShaderNameToNumber("Diffuse");
    }
    look();
  }

  function look() {
    if (!viewer) return;
    viewer.meshes = parts.filter((part) => !view.only || part.side === view.only).map((part) => part.mesh);
    viewer.scene.renderAzimuth = view.azimuth;
    viewer.scene.renderElevation = view.elevation;
    // NiiVue shows 0.8 of half the diagonal between the middle and the nearest edge of the canvas,
    // more along its longer side: fill it with what is seen from the front of this view.
    const size = viewer.sceneExtentsMinMax()[2], radius = Math.hypot(...size) / 2;
    const [across, upwards] = view.from === "above" ? [size[0], size[1]] : [size[1], size[2]];
    const wide = stage.clientWidth / stage.clientHeight;
    const fill = Math.min(Math.max(wide, 1) / across, Math.max(1, 1 / wide) / upwards);
    viewer.scene.volScaleMultiplier = Math.min(0.95 * 1.6 * radius * fill * zoom, mostScale);
    refresh();
  }

  function paint() {
    wanted = 0;
    if (!viewer || !shown) return;
    const level = levels(shown.mode, shown.score);
    for (const { start, size, sulci, mesh } of parts) {
      for (let vertex = 0; vertex < size; vertex++) {
        const point = start + vertex;
        const colour = point === shown.point ? chosenColour : colourOf(shown.mode, level[point]);
        const shade = exposure * (sulci && shape === "Inflated" ? 1 - sulci[vertex] / 700 : 1);
        for (let c = 0; c < 3; c++) mesh.rgba255[4 * vertex + c] = colour[c] * shade;
      }
      mesh.updateMesh(viewer.gl);
    }
    viewer.drawScene();
    onFrame();
  }

  // However many wishes there are, one picture for each frame of the screen.
  function refresh() {
    if (!wanted) wanted = requestAnimationFrame(paint);
  }

  function turn(across, upwards) {
    view.azimuth = (view.azimuth + across + 360) % 360;
    view.elevation = Math.min(Math.max(view.elevation + upwards, -90), 90);
    look();
  }

  function magnify(factor) {
    zoom = Math.min(Math.max(zoom * factor, 0.6), mostZoom);
    look();
  }

  // NiiVue finds the point under the pointer in one hidden drawing that has depth for colour.
  function pick(event) {
    const box = canvas.getBoundingClientRect(), { dpr } = viewer.uiData;
    viewer.mousePos = [(event.clientX - box.left) * dpr, (event.clientY - box.top) * dpr];
    viewer.scene.crosshairPos = [NaN, NaN, NaN];
    viewer.uiData.mouseDepthPicker = true;
    viewer.drawScene();
    viewer.drawScene();
    const place = viewer.frac2mm(viewer.scene.crosshairPos);
    let best = -1, nearest = 8 ** 2; // mm: farther away is no vertex but the background
    for (const { start, mesh } of parts) {
      if (!viewer.meshes.includes(mesh)) continue;
      for (let at = 0; at < mesh.pts.length; at += 3) {
        const away = (mesh.pts[at] - place[0]) ** 2 + (mesh.pts[at + 1] - place[1]) ** 2 + (mesh.pts[at + 2] - place[2]) ** 2;
        if (away < nearest) [best, nearest] = [start + at / 3, away];
      }
    }
    if (best >= 0) onPick(best);
  }

  const hands = new Map();
  let travelled = 0;
  const span = () => {
    const [a, b] = [...hands.values()];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (!hands.size) travelled = 0;
    hands.set(event.pointerId, [event.clientX, event.clientY]);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const from = hands.get(event.pointerId);
    if (!from) return;
    const before = hands.size === 2 && span(), [across, down] = [event.clientX - from[0], event.clientY - from[1]];
    hands.set(event.pointerId, [event.clientX, event.clientY]);
    travelled += Math.abs(across) + Math.abs(down);
    if (before) magnify(span() / before);
    else if (hands.size === 1 && travelled > 4) turn(-across / 2, down / 2);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (hands.size === 1 && travelled <= 4 && viewer) pick(event);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => hands.delete(event.pointerId));
  }
  // The wheel scrolls the page until the brain has been chosen; a pinch on a touchpad is a wheel too.
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    magnify(Math.exp(-event.deltaY / 400));
  }, { passive: false });
  const keys = {
    ArrowLeft: () => turn(8, 0), ArrowRight: () => turn(-8, 0),
    ArrowUp: () => turn(0, -8), ArrowDown: () => turn(0, 8),
    "+": () => magnify(1.15), "=": () => magnify(1.15), "-": () => magnify(1 / 1.15),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });

  start();
  return {
    show(state) {
      shown = { ...state };
      refresh();
    },
    look(change) {
      if (change.view) [view, zoom] = [{ ...views[change.view] }, 1];
      if (change.zoom) magnify(change.zoom);
      if (change.shape) shape = change.shape;
      if (viewer && change.shape) build();
      else look();
    },
    describe(point) {
      const { side, start, vertices } = parts.find((part) => point < part.start + part.size);
      return `Vertex ${vertices[point - start].toLocaleString("en")}, ${side} hemisphere`;
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
