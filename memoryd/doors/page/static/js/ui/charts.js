// Small charts as SVG, sized by their box. Each has a text for those who do not see it.

import { html } from "../../vendor/preact-htm.js";
import { number } from "../i18n.js";

const WIDTH = 600;

// Bars of one or more parts. `rows`: [{label, values: {part: number}, title}]; `parts`: names that are
// also colour classes; `every`: label each n-th row.
export function Bars({ rows, parts, height = 150, label, every = 7 }) {
  const most = Math.max(1, ...rows.map((row) => parts.reduce((sum, part) => sum + (row.values[part] ?? 0), 0)));
  const top = niceTop(most);
  const [left, bottom] = [34, 20];
  const step = (WIDTH - left) / rows.length;
  const scale = (height - bottom - 8) / top;
  const bars = rows.map((row, place) => {
    let base = height - bottom;
    const stacked = parts.map((part) => {
      const size = (row.values[part] ?? 0) * scale;
      base -= size;
      return size > 0 && html`<rect class=${`fill-${part}`} x=${left + place * step + step * 0.14} y=${base} width=${step * 0.72} height=${size} rx="1.5" />`;
    });
    const mark = place % every === 0;
    return html`<g key=${row.label}><title>${row.title}</title><rect x=${left + place * step} y="0" width=${step} height=${height - bottom} fill="transparent" />${stacked}${mark && html`<text x=${left + place * step + step / 2} y=${height - 5} text-anchor="middle">${row.label}</text>`}</g>`;
  });
  return html`<svg class="chart" viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${label}><${Grid} top=${top} height=${height} bottom=${bottom} left=${left} />${bars}</svg>`;
}

// Lines over time. `series`: [{name, color, points: [[x, y|null]]}], x in seconds. A gap where y is null.
export function Lines({ series, height = 150, label, unit = "", format = (value) => number(value, 1), times = [] }) {
  const all = series.flatMap((one) => one.points).filter(([, y]) => y !== null);
  if (!all.length) return html`<svg class="chart" viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${label}></svg>`;
  const [left, bottom] = [46, 20];
  const xs = all.map(([x]) => x);
  const [from, to] = [Math.min(...xs), Math.max(...xs)];
  const top = niceTop(Math.max(...all.map(([, y]) => y), 0.001));
  const at = ([x, y]) => `${left + ((x - from) / Math.max(1, to - from)) * (WIDTH - left - 6)},${height - bottom - (y / top) * (height - bottom - 8)}`;
  const drawn = series.map((one) => {
    let path = "";
    let pen = "M";
    for (const point of one.points) {
      if (point[1] === null) pen = "M";
      else {
        path += pen + at(point);
        pen = "L";
      }
    }
    return html`<path key=${one.name} class=${`line stroke-${one.color}`} d=${path}><title>${one.name}</title></path>`;
  });
  const marks = times.map(({ at: x, text }) => html`<text key=${x} x=${left + ((x - from) / Math.max(1, to - from)) * (WIDTH - left - 6)} y=${height - 5} text-anchor="middle">${text}</text>`);
  return html`<svg class="chart" viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${label}><${Grid} top=${top} height=${height} bottom=${bottom} left=${left} unit=${unit} format=${format} />${drawn}${marks}</svg>`;
}

function Grid({ top, height, bottom, left, unit = "", format = (value) => number(value, 1) }) {
  const lines = [0, 0.5, 1].map((share) => {
    const y = height - bottom - share * (height - bottom - 8);
    return html`<g key=${share}><line class=${share ? "grid-line" : "axis"} x1=${left} x2=${WIDTH} y1=${y} y2=${y} /><text x=${left - 6} y=${y + 4} text-anchor="end">${format(share * top)}${unit}</text></g>`;
  });
  return html`<g>${lines}</g>`;
}

// The next round number: 1, 2 or 5 times a power of ten.
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((one) => one * power >= value);
  return step * power;
}
