// The points of a map: the columns of its bytes, and an index that finds points by their place.

export const SIDE = 65536; // the map is a square of this many units
const CELL_BITS = 8; // 256 units are a cell, so there are 256 x 256 cells
const CELLS = SIDE >> CELL_BITS;

// The columns of the bytes that the daemon sends. `n` is the number of points.
export function decode(buffer) {
  const head = new Uint8Array(buffer, 0, 4);
  if (String.fromCharCode(...head) !== "MAP1") throw new Error("These are no points of a map.");
  const n = new Uint32Array(buffer, 4, 1)[0];
  return {
    n,
    created: new Uint32Array(buffer, 8, n),
    x: new Uint16Array(buffer, 8 + 4 * n, n),
    y: new Uint16Array(buffer, 8 + 6 * n, n),
    kind: new Uint16Array(buffer, 8 + 8 * n, n),
    project: new Uint16Array(buffer, 8 + 10 * n, n),
    type: new Uint8Array(buffer, 8 + 12 * n, n),
    label: new Uint8Array(buffer, 8 + 13 * n, n),
  };
}

// The points sorted by cell: those of cell c are order[starts[c]] to order[starts[c + 1] - 1].
export class Grid {
  constructor({ n, x, y }) {
    this.x = x;
    this.y = y;
    const starts = new Uint32Array(CELLS * CELLS + 1);
    for (let i = 0; i < n; i++) starts[cellOf(x[i], y[i]) + 1]++;
    for (let c = 0; c < CELLS * CELLS; c++) starts[c + 1] += starts[c];
    const next = starts.slice(0, -1);
    const order = new Uint32Array(n);
    for (let i = 0; i < n; i++) order[next[cellOf(x[i], y[i])]++] = i;
    this.starts = starts;
    this.order = order;
  }

  // Calls `visit(index)` for the points in the cells that a rectangle touches.
  each(left, top, right, bottom, visit) {
    const [fromX, toX] = [cellAt(left), cellAt(right)];
    const [fromY, toY] = [cellAt(top), cellAt(bottom)];
    for (let row = fromY; row <= toY; row++) {
      const end = this.starts[row * CELLS + toX + 1];
      for (let place = this.starts[row * CELLS + fromX]; place < end; place++) visit(this.order[place]);
    }
  }

  // The shown point that is nearest to a place and not farther than `radius`; -1 if there is none.
  nearest(x, y, radius, isShown) {
    let found = -1;
    let best = radius * radius;
    this.each(x - radius, y - radius, x + radius, y + radius, (i) => {
      const distance = (this.x[i] - x) ** 2 + (this.y[i] - y) ** 2;
      if (distance <= best && isShown(i)) {
        best = distance;
        found = i;
      }
    });
    return found;
  }

  // The shown points inside a polygon of [x, y] corners.
  inside(polygon, isShown) {
    const xs = polygon.map(([x]) => x);
    const ys = polygon.map(([, y]) => y);
    const found = [];
    this.each(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys), (i) => {
      if (isShown(i) && isInside(polygon, this.x[i], this.y[i])) found.push(i);
    });
    return found;
  }
}

const cellOf = (x, y) => (y >> CELL_BITS) * CELLS + (x >> CELL_BITS);
const cellAt = (value) => Math.max(0, Math.min(CELLS - 1, Math.floor(value) >> CELL_BITS));

// By how often a ray to the right crosses the border.
function isInside(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [ax, ay] = polygon[i];
    const [bx, by] = polygon[j];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}
