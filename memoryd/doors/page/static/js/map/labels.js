// Where the labels of clusters stand so that none covers another: the largest clusters first, and
// those for which there is no room are left out until one zooms in.

import { toScreen } from "./camera.js";

const HEIGHT = 26;
const GAP = 4;
const EDGE = 6;
const PADDING = 22;
const MIN_WIDTH = 44; // of a label that a finger can hit
let measuring = null;

// [{label, index, x, y, width}] for the labels that are shown; x and y are their middles.
export function placed(labels, camera, box, font) {
  const order = [...labels.keys()].sort((a, b) => labels[b].count - labels[a].count);
  const taken = [];
  for (const index of order) {
    const label = labels[index];
    const [x, y] = toScreen(camera, box, label.x, label.y);
    if (x < 0 || y < 0 || x > box.width || y > box.height) continue;
    const width = Math.min(Math.max(MIN_WIDTH, widthOf(label.text, font) + PADDING), 260, box.width - 2 * EDGE);
    const at = inside(x, y, width, box);
    const spot = [0, -HEIGHT, HEIGHT].map((move) => ({ label, index, width, x: at.x, y: at.y + move })).find((one) => !taken.some((other) => overlaps(one, other)));
    if (spot) taken.push(spot);
  }
  return taken;
}

function inside(x, y, width, box) {
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  return { x: clamp(x, width / 2 + EDGE, box.width - width / 2 - EDGE), y: clamp(y, HEIGHT / 2 + EDGE, box.height - HEIGHT / 2 - EDGE) };
}

function overlaps(a, b) {
  return Math.abs(a.x - b.x) < (a.width + b.width) / 2 + GAP && Math.abs(a.y - b.y) < HEIGHT + GAP;
}

function widthOf(text, font) {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = font;
  return measuring.measureText(text).width;
}
