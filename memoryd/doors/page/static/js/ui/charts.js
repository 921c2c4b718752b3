// Small charts as SVG, drawn at the width of their box so that their texts keep their size. Each has
// a text for those who do not see it, and shows the figures under the pointer.

import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { clockTime, number } from "../i18n.js";

const TOP = 10;
const BOTTOM = 22;
const RIGHT = 8;
const CHARACTER = 6.4; // width of a digit of the axis

// Bars of one or more parts. `rows`: [{label, values: {part: number}, title}]; `parts`: names that are
// also colour classes; `every`: label each n-th row.
export function Bars({ rows, parts, height = 150, label, every = 7 }) {
  const box = useBox();
  const sums = rows.map((row) => parts.reduce((sum, part) => sum + (row.values[part] ?? 0), 0));
  const top = niceTop(Math.max(1, ...sums));
  const frame = frameOf(box.width, height, top, number);
  const step = (frame.right - frame.left) / rows.length;
  const bars = rows.map((row, place) => {
    let base = frame.bottom;
    const x = frame.left + place * step;
    const stacked = parts.map((part) => {
      const size = ((row.values[part] ?? 0) / top) * (frame.bottom - TOP);
      base -= size;
      return size > 0 && html`<rect key=${part} class=${`fill-${part}`} x=${x + step * 0.14} y=${base} width=${step * 0.72} height=${size} rx="1.5" />`;
    });
    return html`<g key=${row.label}>${place === box.at && html`<rect class="fill-hover" x=${x} y=${TOP} width=${step} height=${frame.bottom - TOP} rx="3" />`}${stacked}${place % every === 0 && html`<text x=${x + step / 2} y=${height - 5} text-anchor=${place ? "middle" : "start"}>${row.label}</text>`}</g>`;
  });
  const over = (x) => Math.floor((x - frame.left) / step);
  const shown = rows[box.at];
  return html`<${ChartBox} box=${box} height=${height} label=${label} over=${over} tip=${shown?.title} tipAt=${frame.left + (box.at + 0.5) * step}><${Grid} frame=${frame} format=${number} whole />${bars}<//>`;
}

// Lines over time. `series`: [{name, color, points: [[x, y|null]]}], x in seconds, the same for all. A
// gap where y is null. `from`, `to`: the time that is shown, if it is not that of the points.
export function Lines({ series, height = 150, label, format = (value) => number(value, 1), from, to }) {
  const box = useBox();
  const times = series[0]?.points.map(([x]) => x) ?? [];
  const start = from ?? times[0] ?? 0;
  const span = Math.max(1, (to ?? times.at(-1) ?? 1) - start);
  const top = niceTop(series.reduce((most, one) => one.points.reduce((high, [, y]) => Math.max(high, y ?? 0), most), 0.001));
  const isEmpty = !series.some((one) => one.points.some(([, y]) => y !== null));
  const frame = frameOf(box.width, height, top, format);
  const across = (x) => frame.left + ((x - start) / span) * (frame.right - frame.left);
  const up = (y) => frame.bottom - (y / top) * (frame.bottom - TOP);
  const drawn = series.map((one) => html`<path key=${one.name} class=${`line stroke-${one.color}`} d=${pathOf(one.points, across, up)} />${alone(one.points).map(([x, y]) => html`<circle key=${x} class=${`fill-${one.color}`} cx=${across(x)} cy=${up(y)} r="2.2" />`)}`);
  const over = (x) => nearest(times, start + ((x - frame.left) / (frame.right - frame.left)) * span);
  const at = times[box.at];
  const tip = at !== undefined && `${clockTime(at)} · ${series.map((one) => `${one.name} ${one.points[box.at]?.[1] == null ? "–" : format(one.points[box.at][1])}`).join(" · ")}`;
  return html`<${ChartBox} box=${box} height=${height} label=${label} over=${over} tip=${tip} tipAt=${across(at ?? 0)}><${Grid} frame=${frame} format=${isEmpty ? () => "" : format} /><${Clock} from=${start} span=${span} across=${across} height=${height} />${at !== undefined && html`<line class="grid-line" x1=${across(at)} x2=${across(at)} y1=${TOP} y2=${frame.bottom} />`}${drawn}<//>`;
}

// A list of names with bars. `rows`: [{label, value, href?, color?}].
export function Shares({ rows, label }) {
  const most = Math.max(1, ...rows.map((row) => row.value));
  const line = (row) => html`<span class="name cut">${row.label}</span><span class="bar"><i class=${row.color ?? "accent"} style=${{ width: `${Math.max(0.6, (row.value / most) * 100)}%` }}></i></span><span class="count number">${number(row.value)}</span>`;
  return html`<ul class="shares" aria-label=${label}>${rows.map((row, place) => html`<li key=${place}>${row.href ? html`<a href=${row.href} title=${row.label}>${line(row)}</a>` : html`<div>${line(row)}</div>`}</li>`)}</ul>`;
}

// A number of 100 as an arc around it. `kind`: the class of its colour.
export function Gauge({ value, kind, label, below }) {
  const arc = "M 26.1 93.9 A 48 48 0 1 1 93.9 93.9"; // three quarters of a circle
  return html`<svg class=${`gauge ${kind}`} viewBox="0 0 120 106" role="img" aria-label=${label}><path class="track" d=${arc} pathLength="100" /><path class="hand" d=${arc} pathLength="100" stroke-dasharray=${`${Math.max(0.01, value)} 200`} /><text class="big" x="60" y="70" text-anchor="middle">${number(value)}</text><text x="60" y="90" text-anchor="middle">${below}</text></svg>`;
}

export function Legend({ parts }) {
  return html`<div class="legend">${parts.map(([color, text]) => html`<span key=${color}><i class=${color}></i>${text}</span>`)}</div>`;
}

// The width of a chart, and the place under the pointer.
function useBox() {
  const ref = useRef(null);
  const [width, setWidth] = useState(600);
  const [at, setAt] = useState(null);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.max(120, Math.round(entry.contentRect.width))));
    watcher.observe(ref.current);
    return () => watcher.disconnect();
  }, []);
  return { ref, width, at, setAt };
}

function ChartBox({ box, height, label, over, tip, tipAt, children }) {
  const move = (event) => box.setAt(over(event.clientX - event.currentTarget.getBoundingClientRect().left));
  const side = tipAt > box.width / 2 ? { right: `${box.width - tipAt + 8}px` } : { left: `${tipAt + 8}px` };
  return html`<div class="chart-box" ref=${box.ref} onPointerMove=${move} onPointerDown=${move} onPointerLeave=${() => box.setAt(null)}><svg class="chart" viewBox=${`0 0 ${box.width} ${height}`} height=${height} role="img" aria-label=${label}>${children}</svg>${tip && html`<div class="chart-tip" aria-hidden="true" style=${side}>${tip}</div>`}</div>`;
}

function frameOf(width, height, top, format) {
  const left = 8 + CHARACTER * Math.max(format(top).length, format(top / 2).length);
  return { left, right: width - RIGHT, bottom: height - BOTTOM, top };
}

function Grid({ frame, format, whole = false }) {
  const lines = [0, 0.5, 1].map((share) => {
    const y = frame.bottom - share * (frame.bottom - TOP);
    const value = share * frame.top;
    const text = whole && !Number.isInteger(value) ? "" : format(value);
    return html`<g key=${share}><line class=${share ? "grid-line" : "axis"} x1=${frame.left} x2=${frame.right} y1=${y} y2=${y} /><text x=${frame.left - 6} y=${y + 4} text-anchor="end">${text}</text></g>`;
  });
  return html`<g>${lines}</g>`;
}

// Times below the axis, at round minutes or hours.
function Clock({ from, span, across, height }) {
  const step = [60, 300, 900, 3600, 14400, 21600, 86400].find((one) => span / one <= 5) ?? 86400;
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((from - zone) / step) * step + zone;
  const marks = [];
  for (let at = first; at <= from + span; at += step) marks.push(at);
  return marks.map((at) => html`<text key=${at} x=${across(at)} y=${height - 5} text-anchor=${at - from < span * 0.06 ? "start" : from + span - at < span * 0.06 ? "end" : "middle"}>${clockTime(at)}</text>`);
}

function pathOf(points, across, up) {
  let path = "";
  points.forEach(([x, y], place) => {
    if (y === null) return;
    const follows = place > 0 && points[place - 1][1] !== null;
    path += `${follows ? "L" : "M"}${across(x).toFixed(1)},${up(y).toFixed(1)}`;
  });
  return path;
}

// Points between two gaps, which no line shows.
function alone(points) {
  const isGap = (point) => !point || point[1] === null;
  return points.filter((point, place) => !isGap(point) && isGap(points[place - 1]) && isGap(points[place + 1]));
}

function nearest(times, wanted) {
  let best = null;
  times.forEach((time, place) => {
    if (best === null || Math.abs(time - wanted) < Math.abs(times[best] - wanted)) best = place;
  });
  return best;
}

// The next round number: 1, 2 or 5 times a power of ten.
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((one) => one * power >= value);
  return step * power;
}
