// The brain on the page: a picture at once, and a 3-D viewer in its place as soon as that is ready.

function makeBrain(onPick) {
  const canvas = byId("canvas"), stage = byId("stage"), node = byId("viewer");
  let shown = { mode: "value", level: null };
  let view = surface && surface.parts[0].side === "right" ? views.right : views.left;
  let shape = surface ? Object.keys(surface.shapes)[0] : null;
  let nearest = null, ready = false, busy = false, waiting = false, styled = null;

  function paint() {
    if (!surface) {
      nearest = paintSlices(canvas, shown.mode, shown.level);
      return;
    }
    fitCanvas(canvas);
    nearest = paintSurface(canvas, shape, view, shown.mode, shown.level);
  }

  function pickFromCanvas(event) {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * canvas.width);
    const row = Math.floor(((event.clientY - box.top) / box.height) * canvas.height);
    const point = nearest[row * canvas.width + column];
    if (point >= 0) onPick(point);
  }
  canvas.addEventListener("click", pickFromCanvas);

  // Colour scales with the colour for "no data" at the lower end.
  function scaleOf(mode) {
    if (mode === "cluster") {
      const colours = [wall, ...clusterColours].map(hexOf);
      return colours.flatMap((hex, k) => [
        [k / colours.length, hex],
        [(k + 1) / colours.length, hex],
      ]);
    }
    const table = tableOf(mode);
    const steps = Array.from({ length: 26 }, (_, s) => [0.04 + (0.96 * s) / 25, hexOf(table[Math.round((s * 255) / 25)])]);
    return [[0, hexOf(wall)], [0.0399, hexOf(wall)], ...steps];
  }

  function intensities(part) {
    const level = shown.level.subarray(part.start, part.start + part.size);
    if (shown.mode !== "cluster") return level.map((x) => (x < 0 ? 0 : 0.04 + 0.96 * x));
    // One colour for each triangle, that of most of its corners: no colours of other areas between.
    return Float32Array.from({ length: part.faces.length / 3 }, (_, f) => {
      const [a, b, c] = [0, 1, 2].map((corner) => level[part.faces[3 * f + corner]]);
      return ((b === c ? b : a) + 1.5) / (clusters.length + 1);
    });
  }

  function traceOf(part) {
    const at = surface.shapes[shape].positions.subarray(3 * part.start, 3 * (part.start + part.size));
    const axis = (offset) => Float32Array.from({ length: part.size }, (_, p) => at[3 * p + offset]);
    const corner = (offset) =>
      Uint32Array.from({ length: part.faces.length / 3 }, (_, f) => part.faces[3 * f + offset]);
    return {
      type: "mesh3d", x: axis(0), y: axis(1), z: axis(2), i: corner(0), j: corner(1), k: corner(2),
      intensity: intensities(part), intensitymode: shown.mode === "cluster" ? "cell" : "vertex",
      colorscale: scaleOf(shown.mode), cmin: 0, cmax: 1, showscale: false, hoverinfo: "none",
      visible: !view.only || view.only === part.side,
      lighting: { ambient: 0.62, diffuse: 0.75, specular: 0.05, roughness: 0.95, fresnel: 0 },
      lightposition: lamp(),
    };
  }

  // The lamp is above the eye's shoulder, as far away as it may be.
  function lamp() {
    const at = view.eye.map((x, axis) => 1e5 * (x + 0.6 * view.up[axis]));
    return { x: at[0], y: at[1], z: at[2] };
  }

  function camera() {
    return {
      eye: Object.fromEntries(["x", "y", "z"].map((name, axis) => [name, 2 * unit(view.eye)[axis]])),
      up: Object.fromEntries(["x", "y", "z"].map((name, axis) => [name, view.up[axis]])),
      center: { x: 0, y: 0, z: 0 }, projection: { type: "orthographic" },
    };
  }

  async function startViewer() {
    if (!surface || !document.createElement("canvas").getContext("webgl")) return;
    const script = document.createElement("script");
    script.textContent = byId("viewer-source").textContent;
    document.head.append(script);
    const axis = { visible: false, range: [-1.02, 1.02], autorange: false };
    const layout = {
      margin: { l: 0, r: 0, t: 0, b: 0 }, paper_bgcolor: "rgba(0,0,0,0)", autosize: true,
      scene: {
        xaxis: axis, yaxis: axis, zaxis: axis, aspectmode: "manual", aspectratio: { x: 2.1, y: 2.1, z: 2.1 }, camera: camera(),
        dragmode: "orbit", hovermode: "closest", bgcolor: "rgba(0,0,0,0)",
      },
    };
    styled = shown.mode;
    await Plotly.newPlot(node, surface.parts.map(traceOf), layout, {
      displayModeBar: false, responsive: true, scrollZoom: false, showTips: false,
    });
    node.on("plotly_click", (event) => {
      const { curveNumber, pointNumber } = event.points[0];
      onPick(surface.parts[curveNumber].start + pointNumber);
    });
    node.on("plotly_relayout", () => {
      const now = node.layout.scene.camera;
      view = { ...view, eye: [now.eye.x, now.eye.y, now.eye.z], up: [now.up.x, now.up.y, now.up.z] };
    });
    ready = true;
    stage.classList.add("ready");
    refresh();
  }

  // One frame at a time: while the viewer draws, only the newest wish is remembered.
  async function refresh() {
    if (!ready) {
      paint();
      return;
    }
    if (busy) {
      waiting = true;
      return;
    }
    busy = true;
    do {
      waiting = false;
      const change = { intensity: surface.parts.map(intensities) };
      if (styled !== shown.mode) {
        styled = shown.mode;
        change.intensitymode = styled === "cluster" ? "cell" : "vertex";
        change.colorscale = [scaleOf(styled)];
      }
      await Plotly.restyle(node, change);
      stage.dataset.frame = String(Number(stage.dataset.frame || 0) + 1);
    } while (waiting);
    busy = false;
  }

  async function look(change) {
    if (change.view) view = views[change.view];
    if (change.shape) shape = change.shape;
    if (!ready) {
      paint();
      return;
    }
    styled = shown.mode;
    await Plotly.react(node, surface.parts.map(traceOf), {
      ...node.layout, scene: { ...node.layout.scene, camera: camera() },
    });
    stage.dataset.frame = String(Number(stage.dataset.frame || 0) + 1);
  }

  window.addEventListener("beforeprint", paint);
  window.addEventListener("resize", () => ready || paint());

  return {
    show(mode, level) {
      shown = { mode, level };
      return refresh();
    },
    look,
    startViewer,
    describe(point) {
      if (!surface) return `Voxel ${point.toLocaleString("en")}`;
      const part = surface.parts.find((p) => point < p.start + p.size);
      const vertex = part.vertices[point - part.start];
      return `Vertex ${vertex.toLocaleString("en")}, ${part.side} hemisphere`;
    },
  };
}
