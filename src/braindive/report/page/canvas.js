// Pictures made pixel by pixel. They need no WebGL, which remote desktops often lack, are there as
// soon as the page is, print as they look, and know which point of the brain each pixel shows.

const surface = report.picture && report.picture.kind === "surface" ? prepareSurface() : null;

function prepareSurface() {
  let start = 0;
  const parts = report.picture.parts.map((part, index) => {
    const ready = {
      side: part.side,
      start,
      size: part.size,
      faces: decode(part.faces, Uint16Array),
      vertices: decode(report.picture.vertices[index], Uint32Array),
    };
    start += part.size;
    return ready;
  });
  const shapes = {};
  for (const [name, shape] of Object.entries(report.picture.shapes)) {
    const steps = decode(shape.points, Int16Array);
    const positions = Float32Array.from(steps, (step) => step / 32767);
    shapes[name] = { positions, normals: null }; // normals when the shape is first painted
  }
  return { parts, shapes };
}

function vertexNormals(at, parts) {
  const normals = new Float32Array(at.length);
  for (const { start, faces } of parts) {
    for (let f = 0; f < faces.length; f += 3) {
      const a = 3 * (start + faces[f]), b = 3 * (start + faces[f + 1]), c = 3 * (start + faces[f + 2]);
      const ux = at[b] - at[a], uy = at[b + 1] - at[a + 1], uz = at[b + 2] - at[a + 2];
      const vx = at[c] - at[a], vy = at[c + 1] - at[a + 1], vz = at[c + 2] - at[a + 2];
      const x = uy * vz - uz * vy, y = uz * vx - ux * vz, z = ux * vy - uy * vx;
      normals[a] += x, normals[a + 1] += y, normals[a + 2] += z;
      normals[b] += x, normals[b + 1] += y, normals[b + 2] += z;
      normals[c] += x, normals[c + 1] += y, normals[c + 2] += z;
    }
  }
  for (let p = 0; p < normals.length; p += 3) {
    const length = Math.hypot(normals[p], normals[p + 1], normals[p + 2]) || 1;
    normals[p] /= length, normals[p + 1] /= length, normals[p + 2] /= length;
  }
  return normals;
}

function cross(u, v) {
  return [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
}
const along = (list, at, v) => list[at] * v[0] + list[at + 1] * v[1] + list[at + 2] * v[2];
const unit = (u) => u.map((x) => x / (Math.hypot(...u) || 1));

// Which way the eye looks from, which way is up, and which hemispheres are there.
const views = {
  left: { eye: [-1, 0, 0], up: [0, 0, 1] },
  right: { eye: [1, 0, 0], up: [0, 0, 1] },
  "left-medial": { eye: [1, 0, 0], up: [0, 0, 1], only: "left" },
  "right-medial": { eye: [-1, 0, 0], up: [0, 0, 1], only: "right" },
  top: { eye: [0, 0, 1], up: [0, 1, 0] },
  below: { eye: [0, 0, -1], up: [0, 1, 0] },
};

function fitCanvas(canvas) {
  const box = canvas.getBoundingClientRect();
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(box.width * scale));
  canvas.height = Math.max(1, Math.round(box.height * scale));
}

function boundsOf(positions, parts) {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  for (const { start, size } of parts) {
    for (let at = 3 * start; at < 3 * (start + size); at++) {
      if (positions[at] < low[at % 3]) low[at % 3] = positions[at];
      if (positions[at] > high[at % 3]) high[at % 3] = positions[at];
    }
  }
  const size = high.map((x, axis) => x - low[axis]);
  return { middle: high.map((x, axis) => (x + low[axis]) / 2), extent: Math.max(...size) };
}

// Triangles into pixels with a depth buffer; returns the point nearest to each pixel.
function paintSurface(canvas, shape, view, mode, level) {
  const { width, height } = canvas;
  const right = unit(cross(view.up, view.eye)), eye = unit(view.eye), up = cross(eye, right);
  const light = unit(eye.map((x, axis) => x + 0.35 * up[axis] - 0.25 * right[axis]));
  const { positions } = surface.shapes[shape];
  const normals = (surface.shapes[shape].normals ??= vertexNormals(positions, surface.parts));
  const shown = surface.parts.filter((part) => !view.only || part.side === view.only);
  const total = positions.length / 3;
  const x = new Float32Array(total), y = new Float32Array(total), z = new Float32Array(total);
  const colour = new Uint8ClampedArray(3 * total);
  const { middle, extent } = boundsOf(positions, shown);
  const zoom = (0.94 * Math.min(width, 1.2 * height)) / extent;
  const [atRight, atUp] = [along(middle, 0, right), along(middle, 0, up)];
  for (const part of shown) {
    for (let p = part.start; p < part.start + part.size; p++) {
      x[p] = (along(positions, 3 * p, right) - atRight) * zoom + width / 2;
      y[p] = (atUp - along(positions, 3 * p, up)) * zoom + height / 2;
      z[p] = along(positions, 3 * p, eye);
      const bright = 0.42 + 0.62 * Math.max(0, along(normals, 3 * p, light));
      const base = colourOf(mode, level[p]);
      for (let c = 0; c < 3; c++) colour[3 * p + c] = base[c] * bright;
    }
  }
  const image = new ImageData(width, height);
  const depth = new Float32Array(width * height).fill(-Infinity);
  const nearest = new Int32Array(width * height).fill(-1);
  for (const { start, faces } of shown) {
    for (let f = 0; f < faces.length; f += 3) {
      const a = start + faces[f], b = start + faces[f + 1], c = start + faces[f + 2];
      const area = (x[b] - x[a]) * (y[c] - y[a]) - (x[c] - x[a]) * (y[b] - y[a]);
      if (area >= 0) continue; // seen from inside: the screen's y axis points down
      const first = Math.max(0, Math.ceil(Math.min(x[a], x[b], x[c])));
      const last = Math.min(width - 1, Math.floor(Math.max(x[a], x[b], x[c])));
      const top = Math.max(0, Math.ceil(Math.min(y[a], y[b], y[c])));
      const bottom = Math.min(height - 1, Math.floor(Math.max(y[a], y[b], y[c])));
      for (let row = top; row <= bottom; row++) {
        for (let column = first; column <= last; column++) {
          const wa = ((x[b] - column) * (y[c] - row) - (x[c] - column) * (y[b] - row)) / area;
          const wb = ((x[c] - column) * (y[a] - row) - (x[a] - column) * (y[c] - row)) / area;
          const wc = 1 - wa - wb;
          if (wa < -1e-6 || wb < -1e-6 || wc < -1e-6) continue;
          const pixel = row * width + column, near = wa * z[a] + wb * z[b] + wc * z[c];
          if (near <= depth[pixel]) continue;
          depth[pixel] = near;
          const owner = wa > wb ? (wa > wc ? a : c) : wb > wc ? b : c;
          nearest[pixel] = owner;
          for (let channel = 0; channel < 3; channel++) {
            image.data[4 * pixel + channel] =
              mode === "cluster"
                ? colour[3 * owner + channel]
                : wa * colour[3 * a + channel] + wb * colour[3 * b + channel] + wc * colour[3 * c + channel];
          }
          image.data[4 * pixel + 3] = 255;
        }
      }
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return nearest;
}

// Slices of a volume: one pixel for each voxel, enlarged by the style sheet.
function paintSlices(canvas, mode, level) {
  const { width, height } = report.picture;
  const places = decode(report.picture.places, Uint16Array);
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height);
  const nearest = new Int32Array(width * height).fill(-1);
  for (let point = 0; point < points.size; point++) {
    const pixel = places[2 * point + 1] * width + places[2 * point];
    image.data.set([...colourOf(mode, level[point]), 255], 4 * pixel);
    nearest[pixel] = point;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return nearest;
}
