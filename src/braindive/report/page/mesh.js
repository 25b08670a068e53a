// Meshes on the graphics card: coloured vertices, seen straight (no perspective) in several panels.

// A face that is seen at a slant is a little darker, so that shape shows; no lamp, no shadows.
const slantShade = 0.14;
const vertexProgram = `#version 300 es
  in vec3 position; in vec3 normal; in vec3 colour;
  uniform mat3 turn; uniform vec3 middle; uniform vec3 scale;
  out vec3 seen;
  void main() {
    vec3 at = turn * (position - middle);
    float slant = 1.0 - abs((turn * normal).z);
    seen = colour * (1.0 - ${slantShade.toFixed(2)} * slant);
    gl_Position = vec4(at.xy * scale.xy, -at.z * scale.z, 1.0);
  }`;
const fragmentProgram = `#version 300 es
  precision mediump float;
  in vec3 seen; out vec4 shown;
  void main() { shown = vec4(seen, 1.0); }`;

function makeMeshes(gl) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertexProgram], [gl.FRAGMENT_SHADER, fragmentProgram]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  gl.useProgram(program);
  gl.enable(gl.DEPTH_TEST);
  const uniform = Object.fromEntries(["turn", "middle", "scale"].map((name) => [name, gl.getUniformLocation(program, name)]));

  function attribute(name, data, size, type, usage) {
    const buffer = gl.createBuffer(), at = gl.getAttribLocation(program, name);
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
    begin(width, height) {
      gl.viewport(0, 0, width, height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    },
    // One panel: which part of the canvas, from where, and what.
    draw({ left, bottom, width, height }, { across, upwards, towards }, middle, perPixel, radius, meshes) {
      gl.viewport(left, bottom, width, height);
      gl.uniformMatrix3fv(uniform.turn, false, [0, 1, 2].flatMap((axis) => [across[axis], upwards[axis], towards[axis]]));
      gl.uniform3fv(uniform.middle, middle);
      gl.uniform3fv(uniform.scale, [2 / (width * perPixel), 2 / (height * perPixel), 1 / (2 * radius)]);
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
