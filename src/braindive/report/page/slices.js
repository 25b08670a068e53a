// Three planes through a volume, over a template where there is one. A click moves the planes.

function makeSlices(onPick, onFrame) {
  const canvas = byId("canvas"), stage = byId("stage"), { shape, affine, size } = report.picture;
  const places = decode(report.picture.places, Uint32Array);
  const template = report.picture.template && decode(report.picture.template, Uint8Array);
  const voxel = new Int32Array(shape[0] * shape[1] * shape[2]).fill(-1);
  places.forEach((place, point) => { voxel[place] = point; });
  const placeAt = ([x, y, z]) => (x * shape[1] + y) * shape[2] + z;
  const indexOf = (point) => {
    const place = places[point];
    return [Math.floor(place / (shape[1] * shape[2])), Math.floor(place / shape[2]) % shape[1], place % shape[2]];
  };
  const millimetres = (at) => affine.map((row) => row[0] * at[0] + row[1] * at[1] + row[2] * at[2] + row[3]);
  // Which axis runs across and which upwards, and what the ends are called.
  const planes = [
    { name: "Coronal", axes: [0, 2], cut: 1, ends: ["L", "R", "S", "I"] },
    { name: "Sagittal", axes: [1, 2], cut: 0, ends: ["P", "A", "S", "I"] },
    { name: "Axial", axes: [0, 1], cut: 2, ends: ["L", "R", "A", "P"] },
  ];
  // Begin in the middle of what was measured.
  let centre = [0, 1, 2].map((axis) => {
    const along = Array.from(places, (_, point) => indexOf(point)[axis]).sort((a, b) => a - b);
    return along[Math.floor(along.length / 2)];
  });
  let shown = null, wanted = 0, panels = [], cover = 1;
  const slate = document.createElement("canvas");

  function layOut() {
    const [width, height] = [stage.clientWidth, stage.clientHeight], room = width < 500 ? 32 : 38, above = 22, below = 18;
    const extent = planes.map(({ axes }) => axes.map((axis) => shape[axis] * size[axis]));
    // In one row, or two rows of two where the stage is narrow.
    const inRow = extent.map(([across]) => across).reduce((a, b) => a + b), tallest = Math.max(...extent.map((e) => e[1]));
    const oneRow = Math.min((width - 4 * room) / inRow, (height - above - below) / tallest);
    const columns = [Math.max(extent[0][0], extent[2][0]), extent[1][0]], rows = [Math.max(extent[0][1], extent[1][1]), extent[2][1]];
    const twoRows = Math.min((width - 3 * room) / (columns[0] + columns[1]), (height - 2 * (above + below)) / (rows[0] + rows[1]));
    const inOne = oneRow >= twoRows, scale = inOne ? oneRow : twoRows;
    let left = inOne ? (width - inRow * scale - 2 * room) / 2 : 0;
    panels = planes.map((plane, index) => {
      const [across, up] = extent[index].map((e) => e * scale);
      const panel = { ...plane, width: across, height: up, scale };
      if (inOne) {
        Object.assign(panel, { left, top: (height - up) / 2 });
        left += across + room;
      } else {
        const leftmost = (width - (columns[0] + columns[1]) * scale - room) / 2;
        panel.left = index === 1 ? leftmost + columns[0] * scale + room : leftmost;
        panel.top = above + (index === 2 ? below + above + rows[0] * scale : 0);
      }
      return panel;
    });
  }

  function indexAt(panel, x, y) {
    const [across, up] = panel.axes, at = [...centre];
    at[across] = Math.floor(((x - panel.left) / panel.width) * shape[across]);
    at[up] = shape[up] - 1 - Math.floor(((y - panel.top) / panel.height) * shape[up]);
    return at.every((index, axis) => index >= 0 && index < shape[axis]) ? at : null;
  }

  function paint() {
    wanted = 0;
    if (!shown || !stage.clientWidth) return;
    const dpr = Math.min(window.devicePixelRatio || 1, 2);
    [canvas.width, canvas.height] = [stage.clientWidth, stage.clientHeight].map((side) => Math.round(side * dpr));
    layOut();
    const level = levels(shown.mode, shown.score), pen = canvas.getContext("2d");
    pen.imageSmoothingEnabled = false;
    pen.scale(dpr, dpr);
    for (const panel of panels) {
      const [across, up] = panel.axes, [width, height] = [shape[across], shape[up]];
      const image = new ImageData(width, height), at = [...centre];
      for (let row = 0; row < height; row++) {
        for (let column = 0; column < width; column++) {
          at[across] = column;
          at[up] = height - 1 - row;
          const place = placeAt(at), point = voxel[place], grey = template ? template[place] : 0;
          if (point < 0 && !grey) continue;
          const under = 60 + 0.7 * grey, over = point < 0 ? null : colourOf(shown.mode, level[point]);
          const share = over ? (grey || !template ? (template ? cover : 1) : 1) : 0;
          const rgb = [0, 1, 2].map((c) => (over ? share * over[c] : 0) + (1 - share) * under);
          image.data.set([...rgb, 255], 4 * (row * width + column));
        }
      }
      [slate.width, slate.height] = [width, height];
      slate.getContext("2d").putImageData(image, 0, 0);
      pen.drawImage(slate, panel.left, panel.top, panel.width, panel.height);
      // Where the other two planes cut this one.
      pen.strokeStyle = "rgba(0, 120, 200, 0.8)";
      pen.lineWidth = 1;
      pen.beginPath();
      const x = panel.left + ((centre[across] + 0.5) / width) * panel.width;
      const y = panel.top + ((height - centre[up] - 0.5) / height) * panel.height;
      pen.moveTo(x, panel.top);
      pen.lineTo(x, panel.top + panel.height);
      pen.moveTo(panel.left, y);
      pen.lineTo(panel.left + panel.width, y);
      pen.stroke();
    }
    writeMarks(stage, marksOf());
    onFrame();
  }

  function marksOf() {
    const at = millimetres(centre);
    return panels.flatMap((panel) => {
      const { left, top, width, height, ends: [west, east, north, south] } = panel;
      const [x, y] = [left + width / 2, top + height / 2];
      const millimetre = `${"xyz"[panel.cut]} = ${Math.round(at[panel.cut])} mm`.replace("-", "−");
      return [
        { text: width < 160 ? millimetre : `${panel.name}, ${millimetre}`, left, top: top - 18, kind: "title" },
        { text: west, left: left - 9, top: y, kind: "mark" }, { text: east, left: left + width + 9, top: y, kind: "mark" },
        { text: north, left: left + width - 10, top: top + 8, kind: "mark" }, { text: south, left: x, top: top + height + 10, kind: "mark" },
      ];
    });
  }

  function refresh() {
    if (!wanted) wanted = requestAnimationFrame(paint);
  }
  function moveTo(at) {
    centre = at.map((index, axis) => Math.min(Math.max(index, 0), shape[axis] - 1));
    const point = voxel[placeAt(centre)];
    if (point >= 0) onPick(point);
    refresh();
  }
  const under = (event) => {
    const box = canvas.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const panel = panels.find((p) => x >= p.left && x < p.left + p.width && y >= p.top && y < p.top + p.height);
    return { x, y, at: panel ? indexAt(panel, x, y) : null };
  };
  const step = (axis, by) => () => moveTo(centre.map((index, own) => index + (own === axis ? by : 0)));
  const written = (at) => millimetres(at).map((x) => Math.round(x)).join(", ").replaceAll("-", "−");

  watchHand(canvas, {
    pick: (event) => {
      const { at } = under(event);
      if (at) moveTo(at);
    },
    hover: (event) => {
      const { x, y, at } = under(event), point = at ? voxel[placeAt(at)] : -1;
      showHover(point < 0 ? "" : `${nameOf(point)} · ${written(at)} mm`, x, y);
    },
    keys: {
      ArrowLeft: step(0, -1), ArrowRight: step(0, 1), ArrowUp: step(2, 1), ArrowDown: step(2, -1),
      PageUp: step(1, 1), PageDown: step(1, -1),
    },
  });
  new ResizeObserver(refresh).observe(stage);

  return {
    show(state) {
      if (state.point !== null && (!shown || shown.point !== state.point)) centre = indexOf(state.point);
      shown = { ...state };
      refresh();
    },
    look(change) {
      if (change.cover !== undefined) cover = change.cover;
      refresh();
    },
    snapshot() {
      paint();
      return { canvas, marks: marksOf(), width: stage.clientWidth, height: stage.clientHeight };
    },
    kept: () => ({}),
    describe: (point) => `voxel at ${written(indexOf(point))} mm`,
  };
}
