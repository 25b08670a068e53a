// Meshes on the graphics card: coloured vertices, seen straight (no perspective) in several panels.

// A face that is seen at a slant is a little darker, so that shape shows; no lamp, no shadows.
const slantShade = 0.14;
// Between vertices colours mix, but those of areas must not: between violet and yellow there is no
// area, and a triangle then has one colour ("flat").
const vertexProgram = (kind) => `#version 300 es
  in vec3 position; in vec3 normal; in vec3 colour;
  uniform mat3 turn; uniform vec3 middle; uniform vec3 scale;
  ${kind} out vec3 own; out float shade;
  void main() {
    vec3 at = turn * (position - middle);
    own = colour;
    shade = 1.0 - ${slantShade.toFixed(2)} * (1.0 - abs((turn * normal).z));
    gl_Position = vec4(at.xy * scale.xy, -at.z * scale.z, 1.0);
  }`;
const fragmentProgram = (kind) => `#version 300 es
  precision mediump float;
  ${kind} in vec3 own; in float shade; out vec4 shown;
  void main() { shown = vec4(own * shade, 1.0); }`;
const attributes = ["position", "normal", "colour"];

function makeProgram(gl, kind) {
  const program = gl.createProgram();
  for (const [type, source] of [[gl.VERTEX_SHADER, vertexProgram(kind)], [gl.FRAGMENT_SHADER, fragmentProgram(kind)]]) {
    const shader = gl.createShader(type);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  attributes.forEach((name, place) => gl.bindAttribLocation(program, place, name));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  const places = ["turn", "middle", "scale"].map((name) => [name, gl.getUniformLocation(program, name)]);
  return { program, ...Object.fromEntries(places) };
}

function makeMeshes(gl) {
  const programs = { smooth: makeProgram(gl, "smooth"), flat: makeProgram(gl, "flat") };
  if (!programs.smooth || !programs.flat) return null;
  let current = programs.smooth;
  gl.enable(gl.DEPTH_TEST);

  function attribute(name, data, size, type, usage) {
    const buffer = gl.createBuffer(), at = attributes.indexOf(name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, data, usage);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, type, type === gl.UNSIGNED_BYTE, 0, 0);
    return buffer;
  }

  return {
    add(positions, faces) {
      const array = gl.createVertexArray();
      gl.bindVertexArray(array);
      const colours = new Uint8Array(positions.length);
      const buffers = [
        attribute("position", positions, 3, gl.FLOAT, gl.STATIC_DRAW),
        attribute("normal", normalsOf(positions, faces), 3, gl.FLOAT, gl.STATIC_DRAW),
        attribute("colour", colours, 3, gl.UNSIGNED_BYTE, gl.DYNAMIC_DRAW),
      ];
      const index = gl.createBuffer();
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, index);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, faces, gl.STATIC_DRAW);
      return {
        positions, faces, colours,
        recolour() {
          gl.bindBuffer(gl.ARRAY_BUFFER, buffers[2]);
          gl.bufferSubData(gl.ARRAY_BUFFER, 0, colours);
        },
        draw() {
          gl.bindVertexArray(array);
          gl.drawElements(gl.TRIANGLES, faces.length, gl.UNSIGNED_INT, 0);
        },
        remove() {
          for (const buffer of [...buffers, index]) gl.deleteBuffer(buffer);
          gl.deleteVertexArray(array);
        },
      };
    },
    begin(width, height, isFlat) {
      current = isFlat ? programs.flat : programs.smooth;
      gl.useProgram(current.program);
      gl.viewport(0, 0, width, height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    },
    // One panel: which part of the canvas, from where, and what.
    draw({ left, bottom, width, height }, { across, upwards, towards }, middle, perPixel, radius, meshes) {
      gl.viewport(left, bottom, width, height);
      gl.uniformMatrix3fv(current.turn, false, [0, 1, 2].flatMap((axis) => [across[axis], upwards[axis], towards[axis]]));
      gl.uniform3fv(current.middle, middle);
      gl.uniform3fv(current.scale, [2 / (width * perPixel), 2 / (height * perPixel), 1 / (2 * radius)]);
      for (const mesh of meshes) mesh.draw();
    },
  };
}

function normalsOf(positions, faces) {
  const normals = new Float32Array(positions.length);
  const edge = (a, b) => [0, 1, 2].map((axis) => positions[3 * b + axis] - positions[3 * a + axis]);
  for (let at = 0; at < faces.length; at += 3) {
    const [a, b, c] = [faces[at], faces[at + 1], faces[at + 2]];
    const normal = cross(edge(a, b), edge(a, c));
    for (const corner of [a, b, c]) {
      for (let axis = 0; axis < 3; axis++) normals[3 * corner + axis] += normal[axis];
    }
  }
  for (let at = 0; at < normals.length; at += 3) {
    const length = Math.hypot(normals[at], normals[at + 1], normals[at + 2]) || 1;
    for (let axis = 0; axis < 3; axis++) normals[at + axis] /= length;
  }
  return normals;
}

const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
