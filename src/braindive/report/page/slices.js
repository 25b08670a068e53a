// Slices of a volume: one pixel for each voxel, enlarged by the style sheet.

function makeSlices(onPick, onFrame) {
  const canvas = byId("canvas"), { width, height } = report.picture;
  const places = decode(report.picture.places, Uint16Array);
  const image = new ImageData(width, height), voxel = new Int32Array(width * height).fill(-1);
  const pixelOf = (point) => places[2 * point + 1] * width + places[2 * point];
  for (let point = 0; point < points.size; point++) voxel[pixelOf(point)] = point;
  canvas.width = width;
  canvas.height = height;
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * width);
    const row = Math.floor(((event.clientY - box.top) / box.height) * height);
    if (voxel[row * width + column] >= 0) onPick(voxel[row * width + column]);
  });

  return {
    show({ mode, score }) {
      const level = levels(mode, score);
      for (let point = 0; point < points.size; point++) {
        image.data.set([...colourOf(mode, level[point]), 255], 4 * pixelOf(point));
      }
      canvas.getContext("2d").putImageData(image, 0, 0);
      onFrame();
    },
    describe: (point) => `Voxel ${point.toLocaleString("en")}`,
  };
}
