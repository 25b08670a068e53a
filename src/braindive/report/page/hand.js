// What pointers, wheel and keys do on the picture, whichever way it is drawn.

function watchHand(canvas, { pick, hover, turn, magnify, keys }) {
  const hands = new Map();
  let travelled = 0, asked = 0;
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
    const before = hands.get(event.pointerId);
    if (!before) {
      // One look under the pointer for each frame of the screen.
      if (event.pointerType !== "touch" && !asked) {
        asked = requestAnimationFrame(() => {
          asked = 0;
          hover(event);
        });
      }
      return;
    }
    const apart = hands.size === 2 && span(), [across, down] = [event.clientX - before[0], event.clientY - before[1]];
    hands.set(event.pointerId, [event.clientX, event.clientY]);
    travelled += Math.abs(across) + Math.abs(down);
    if (apart && magnify) magnify(span() / apart);
    else if (hands.size === 1 && travelled > 4 && turn) turn(event, across, down);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (hands.size === 1 && travelled <= 4) pick(event);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => hands.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", () => {
    cancelAnimationFrame(asked);
    asked = 0;
    showHover("");
  });
  // The wheel scrolls the page until the brain has been chosen; a pinch on a touchpad is a wheel too.
  if (magnify) {
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      magnify(Math.exp(-event.deltaY / 400));
    }, { passive: false });
  }
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
}

// The name of what is under the pointer, beside it.
function showHover(text, x = 0, y = 0) {
  const note = byId("hover"), stage = byId("stage");
  note.hidden = !text;
  note.textContent = text;
  if (!text) return;
  note.style.left = `${Math.min(x + 14, Math.max(stage.clientWidth - note.offsetWidth - 4, 0))}px`;
  note.style.top = `${Math.max(y - note.offsetHeight - 8, 4)}px`;
}

// Words over the picture: titles of panels, directions, and rings around what is chosen.
function writeMarks(stage, marks, kind = "words") {
  let layer = stage.querySelector(`.layer.${kind}`);
  if (!layer) {
    layer = document.createElement("div");
    layer.className = `layer ${kind}`;
    stage.append(layer);
  }
  const now = JSON.stringify(marks);
  if (layer.dataset.now === now) return;
  layer.dataset.now = now;
  layer.replaceChildren(...marks.map(({ text, left, top, kind: own }) => {
    const mark = document.createElement("span");
    mark.className = own;
    mark.textContent = text;
    mark.style.left = `${left}px`;
    mark.style.top = `${top}px`;
    return mark;
  }));
}
