// Which part of the map is seen: a centre in units of the map, and a zoom. At zoom 1 the whole map
// fits into the box.

import { SIDE } from "./points.js";

export const MIN_ZOOM = 0.7;
export const MAX_ZOOM = 400;
export const WHOLE = { x: SIDE / 2, y: SIDE / 2, zoom: 1 };

// Pixels for each unit of the map.
export const scaleOf = (camera, box) => (Math.min(box.width, box.height) / SIDE) * camera.zoom;

export function toScreen(camera, box, x, y) {
  const scale = scaleOf(camera, box);
  return [(x - camera.x) * scale + box.width / 2, (y - camera.y) * scale + box.height / 2];
}

export function toMap(camera, box, x, y) {
  const scale = scaleOf(camera, box);
  return [(x - box.width / 2) / scale + camera.x, (y - box.height / 2) / scale + camera.y];
}

export function panned(camera, box, dx, dy) {
  const scale = scaleOf(camera, box);
  return { ...camera, x: clamp(camera.x - dx / scale, 0, SIDE), y: clamp(camera.y - dy / scale, 0, SIDE) };
}

// Zoomed by a factor so that what is at a place of the box stays there.
export function zoomedAt(camera, box, factor, x = box.width / 2, y = box.height / 2) {
  const zoom = clamp(camera.zoom * factor, MIN_ZOOM, MAX_ZOOM);
  const [mapX, mapY] = toMap(camera, box, x, y);
  const scale = scaleOf({ zoom }, box);
  return { zoom, x: clamp(mapX - (x - box.width / 2) / scale, 0, SIDE), y: clamp(mapY - (y - box.height / 2) / scale, 0, SIDE) };
}

// A view of the middle four fifths of some points: a few that lie far off do not count.
export function around(points, indexes) {
  const middle = (column) => {
    const sorted = Float64Array.from(indexes, (i) => column[i]).sort();
    const at = (share) => sorted[Math.floor(share * (sorted.length - 1))];
    return [at(0.1), at(0.9)];
  };
  const [left, right] = middle(points.x);
  const [top, bottom] = middle(points.y);
  const size = Math.max(right - left, bottom - top, SIDE / 60) * 1.6;
  return { x: (left + right) / 2, y: (top + bottom) / 2, zoom: clamp(SIDE / size, 1, MAX_ZOOM) };
}

// A view on the way from one to another; `share` is from 0 to 1.
export function between(from, to, share) {
  const eased = share < 0.5 ? 2 * share * share : 1 - (2 - 2 * share) ** 2 / 2;
  const mix = (a, b) => a + (b - a) * eased;
  return { x: mix(from.x, to.x), y: mix(from.y, to.y), zoom: from.zoom * (to.zoom / from.zoom) ** eased };
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}
