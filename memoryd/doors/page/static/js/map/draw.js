// Draws points by writing pixels: a hundred thousand calls of the canvas would take a second, the same
// pixels written into an array take some milliseconds.

import { scaleOf } from "./camera.js";
import { channels } from "./colours.js";

const SMALLEST = 0.8; // radius of a point in CSS pixels
const LARGEST = 7;
const DIMMED = 0.16; // opacity of points beside a selection
export const HIDDEN = 255;

// Radius of the points in CSS pixels: larger where there is room, and with the zoom.
export function radiusOf(count, camera, box) {
  const room = Math.sqrt((box.width * box.height) / Math.max(1, count));
  const radius = Math.min(0.3 * room, 4) * camera.zoom ** 0.45;
  return Math.max(SMALLEST, Math.min(LARGEST, radius));
}

// Keeps the pixels between two drawings of one canvas.
export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.image = null;
  }

  // `scene`: {points, of (group of each point, HIDDEN: not drawn), colours, ground, selected (Uint8Array
  // or null), camera, box, ratio}.
  paint(scene) {
    const { box, ratio } = scene;
    const width = Math.max(1, Math.round(box.width * ratio));
    const height = Math.max(1, Math.round(box.height * ratio));
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.image = this.context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const ground = channels(scene.ground);
    this.pixels.fill(packed(ground));
    const disc = discOf(radiusOf(scene.points.n, scene.camera, box) * ratio);
    const opacity = opacityOf(scene.points.n, scene.camera);
    if (scene.selected) {
      this.#points(scene, disc, opacity * DIMMED, (i) => !scene.selected[i]);
      this.#points(scene, disc, 1, (i) => scene.selected[i]);
    } else {
      this.#points(scene, disc, opacity, null);
    }
    this.context.putImageData(this.image, 0, 0);
    return this.context;
  }

  #points({ points, of, colours, camera, box, ratio }, disc, opacity, isWanted) {
    const { x, y, n } = points;
    const { width, height } = this.image;
    const scale = scaleOf(camera, box) * ratio;
    const left = width / 2 - camera.x * scale;
    const top = height / 2 - camera.y * scale;
    const inks = colours.map(channels);
    const { reach } = disc;
    for (let i = 0; i < n; i++) {
      const group = of[i];
      if (group === HIDDEN || (isWanted && !isWanted(i))) continue;
      const px = Math.round(x[i] * scale + left);
      const py = Math.round(y[i] * scale + top);
      if (px < -reach || py < -reach || px >= width + reach || py >= height + reach) continue;
      stamp(this.pixels, width, height, px, py, disc, inks[group], opacity);
    }
  }
}

// Many points that lie on each other are easier to tell apart if they shine through.
const opacityOf = (count, camera) => Math.min(1, (count > 20000 ? 0.62 : count > 3000 ? 0.8 : 0.92) * camera.zoom ** 0.12);

// A round point: the pixels around its middle with the share of each that it covers, 0 to 256.
function discOf(radius) {
  const reach = Math.ceil(radius);
  const cells = [];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const share = Math.max(0, Math.min(1, radius + 0.5 - Math.hypot(dx, dy)));
      if (share > 0.05) cells.push(dx, dy, Math.round(share * 256));
    }
  }
  return { reach, cells: Int16Array.from(cells) };
}

function stamp(pixels, width, height, px, py, { cells }, [red, green, blue], opacity) {
  for (let c = 0; c < cells.length; c += 3) {
    const x = px + cells[c];
    const y = py + cells[c + 1];
    if (x < 0 || y < 0 || x >= width || y >= height) continue;
    const share = cells[c + 2] * opacity;
    const at = y * width + x;
    const old = pixels[at];
    const r = old & 255;
    const g = (old >> 8) & 255;
    const b = (old >> 16) & 255;
    pixels[at] =
      0xff000000 |
      ((b + (((blue - b) * share) >> 8)) << 16) |
      ((g + (((green - g) * share) >> 8)) << 8) |
      (r + (((red - r) * share) >> 8));
  }
}

// As the array of an ImageData has it: red is the lowest byte.
const packed = ([red, green, blue]) => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
