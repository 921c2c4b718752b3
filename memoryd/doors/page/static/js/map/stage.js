// The map itself: the canvas with its points, the labels above it, what is pointed at, and the lasso.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { address } from "../router.js";
import { Button, TypeChip, When } from "../ui/widgets.js";
import { around, between, panned, scaleOf, toMap, toScreen, WHOLE, zoomedAt } from "./camera.js";
import { HIDDEN, Painter, radiusOf } from "./draw.js";
import { watchGestures } from "./gestures.js";
import { placed } from "./labels.js";

const FLIGHT = 320; // milliseconds from one view to another
const READ_AFTER = 70; // milliseconds that a point is pointed at before it is read
const STEP = 60; // pixels that an arrow key moves
const ZOOM_STEP = 1.5;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

// `scene`: {map, of, colours, selected, reader}; `control.current` gets {show(indexes)} for the parent.
export function Stage({ scene, isLasso, setLasso, onLasso, onOpen, onLabel, onEscape, control }) {
  const stage = useRef(null);
  const [box, setBox] = useState(null);
  const { camera, setCamera, fly } = useCamera();
  const [pointed, setPointed] = useState(null); // {index, isFixed}: fixed ones have a link
  const [path, setPath] = useState(null);
  const latest = useRef({});
  const isShown = (i) => scene.of[i] !== HIDDEN;
  const hit = (x, y, reach) => {
    const [mapX, mapY] = toMap(camera, box, x, y);
    return scene.map.grid.nearest(mapX, mapY, reach / scaleOf(camera, box), isShown);
  };
  latest.current = { scene, camera, box, isLasso, isShown, hit };
  useSize(stage, setBox);
  useEffect(() => setPointed(null), [scene.map]);
  useEffect(() => {
    control.current = { show: (indexes) => fly(around(latest.current.scene.map.points, indexes)) };
  }, []);
  useEffect(() => {
    if (!box) return undefined;
    return watchGestures(stage.current, gesturesOf({ latest, setCamera, setPointed, setPath, onLasso, onOpen }));
  }, [Boolean(box), onLasso, onOpen]);
  const zoom = (factor) => box && fly(zoomedAt(camera, box, factor));
  const keys = (event) => pressedKey(event, { latest, setCamera, setPointed, zoom, fly, onOpen, onEscape, pointed });
  return html`<div class=${`map-stage ${isLasso ? "lasso" : ""}`} ref=${stage}>
    <${Canvas} scene=${scene} camera=${camera} box=${box} onKeyDown=${keys} onBlur=${() => setPointed((now) => (now?.byKey ? null : now))} />
    ${box && html`<${Overlay} scene=${scene} camera=${camera} box=${box} pointed=${pointed} path=${path} />
    <${Labels} labels=${scene.map.info.labels} camera=${camera} box=${box} onLabel=${onLabel} />
    <${Tip} scene=${scene} camera=${camera} box=${box} pointed=${pointed} />`}
    <div class="map-buttons">
      <${Button} label=${t("map.lasso")} icon="lasso" aria-pressed=${String(isLasso)} onClick=${() => setLasso(!isLasso)} />
      <${Button} label=${t("map.zoom_in")} icon="teach" onClick=${() => zoom(ZOOM_STEP)} />
      <${Button} label=${t("map.zoom_out")} icon="minus" onClick=${() => zoom(1 / ZOOM_STEP)} />
      <${Button} label=${t("map.reset")} icon="whole" onClick=${() => fly(WHOLE)} />
    </div>
  </div>`;
}

function useCamera() {
  const [camera, setCamera] = useState(WHOLE);
  const latest = useRef(camera);
  const flight = useRef(0);
  latest.current = camera;
  const stop = () => cancelAnimationFrame(flight.current);
  useEffect(() => stop, []);
  const fly = (to) => {
    stop();
    if (reducedMotion.matches) return setCamera(to);
    const from = latest.current;
    const start = performance.now();
    const step = (now) => {
      const share = Math.min(1, Math.max(0, (now - start) / FLIGHT));
      setCamera(between(from, to, share));
      if (share < 1) flight.current = requestAnimationFrame(step);
    };
    flight.current = requestAnimationFrame(step);
    return undefined;
  };
  const set = (change) => {
    stop();
    setCamera(change);
  };
  return { camera, setCamera: set, fly };
}

function useSize(element, setBox) {
  useLayoutEffect(() => {
    const update = () => {
      const { clientWidth: width, clientHeight: height } = element.current;
      if (width && height) setBox((old) => (old?.width === width && old?.height === height ? old : { width, height }));
    };
    const observer = new ResizeObserver(update);
    observer.observe(element.current);
    update();
    return () => observer.disconnect();
  }, []);
}

function gesturesOf({ latest, setCamera, setPointed, setPath, onLasso, onOpen }) {
  const now = () => latest.current;
  const reach = () => Math.max(8, radiusOf(now().scene.map.points.n, now().camera, now().box) + 4);
  return {
    pan: (dx, dy) => setCamera((camera) => panned(camera, now().box, dx, dy)),
    zoom: (factor, x, y) => {
      setPointed(null);
      setCamera((camera) => zoomedAt(camera, now().box, factor, x, y));
    },
    point: (x, y) => {
      const index = now().hit(x, y, reach());
      setPointed((old) => (index < 0 ? null : old?.index === index ? old : { index, isFixed: false }));
    },
    leave: () => setPointed(null),
    tap: (x, y, isTouch) => {
      const index = now().hit(x, y, isTouch ? 22 : reach());
      if (index < 0) setPointed(null);
      else if (isTouch) setPointed({ index, isFixed: true });
      else onOpen(index);
    },
    wantsLasso: (event) => now().isLasso || event.shiftKey,
    lasso: (path, isDone) => {
      setPath(isDone || !path ? null : [...path]);
      if (!isDone || !path || path.length < 3) return;
      const { camera, box, scene, isShown } = now();
      onLasso(scene.map.grid.inside(path.map(([x, y]) => toMap(camera, box, x, y)), isShown));
    },
  };
}

// Arrow keys move, plus and minus zoom, 0 shows all; the point nearest to the middle is read out, and
// Enter opens it.
function pressedKey(event, { latest, setCamera, setPointed, zoom, fly, onOpen, onEscape, pointed }) {
  if (event.ctrlKey || event.metaKey || event.altKey || !latest.current.box) return;
  const moves = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
  const { box } = latest.current;
  if (moves[event.key]) {
    const camera = panned(latest.current.camera, box, ...moves[event.key]);
    setCamera(camera);
    const { scene, isShown } = latest.current;
    const index = scene.map.grid.nearest(camera.x, camera.y, 120 / scaleOf(camera, box), isShown);
    setPointed(index < 0 ? null : { index, isFixed: true, byKey: true });
  } else if (event.key === "+" || event.key === "=") zoom(ZOOM_STEP);
  else if (event.key === "-") zoom(1 / ZOOM_STEP);
  else if (event.key === "0") fly(WHOLE);
  else if (event.key === "Enter" && pointed) onOpen(pointed.index);
  else if (event.key === "Escape") {
    setPointed(null);
    onEscape();
  } else return;
  event.preventDefault();
}

function Canvas({ scene, camera, box, ...rest }) {
  const canvas = useRef(null);
  const painter = useRef(null);
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const update = () => setTheme((now) => now + 1);
    addEventListener("theme", update);
    return () => removeEventListener("theme", update);
  }, []);
  useEffect(() => {
    if (!box) return undefined;
    const frame = requestAnimationFrame(() => {
      painter.current ??= new Painter(canvas.current);
      const ground = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
      const { map, of, colours, selected } = scene;
      painter.current.paint({ points: map.points, of, colours: colours(), selected, ground, camera, box, ratio: devicePixelRatio || 1 });
      canvas.current.dataset.painted = String(Number(canvas.current.dataset.painted ?? 0) + 1);
    });
    return () => cancelAnimationFrame(frame);
  }, [scene, camera, box, theme]);
  return html`<canvas ref=${canvas} tabindex="0" role="application" aria-label=${t("map.canvas", { n: scene.map.points.n })} aria-describedby="map-keys" ...${rest} />`;
}

function Overlay({ scene, camera, box, pointed, path }) {
  const { points } = scene.map;
  const ring = pointed && toScreen(camera, box, points.x[pointed.index], points.y[pointed.index]);
  const outline = path && `M${path.map((place) => place.map((value) => value.toFixed(1)).join(" ")).join("L")}Z`;
  return html`<svg class="map-overlay" width=${box.width} height=${box.height} aria-hidden="true">
    ${ring && html`<circle cx=${ring[0]} cy=${ring[1]} r=${radiusOf(points.n, camera, box) + 4} />`}
    ${outline && html`<path d=${outline} />`}
  </svg>`;
}

function Labels({ labels, camera, box, onLabel }) {
  const font = useMemo(() => `650 13px ${getComputedStyle(document.documentElement).getPropertyValue("--font")}`, []);
  const shown = placed(labels, camera, box, font);
  return html`<div class="map-labels">${shown.map(({ label, index, x, y, width }) => html`<button type="button" key=${index} tabindex="-1" aria-hidden="true" style=${{ left: `${x}px`, top: `${y}px`, maxWidth: `${width}px` }} onClick=${() => onLabel(index)}>${label.text}</button>`)}</div>`;
}

function Tip({ scene, camera, box, pointed }) {
  const found = usePointed(scene.reader, pointed);
  if (!pointed) return html`<div class="hidden-text" role="status" />`;
  const { points } = scene.map;
  const [x, y] = toScreen(camera, box, points.x[pointed.index], points.y[pointed.index]);
  const width = Math.min(320, box.width - 16);
  const left = Math.max(8, Math.min(box.width - width - 8, x - width / 2));
  const isBelow = y < box.height / 2;
  const place = { left: `${left}px`, width: `${width}px`, ...(isBelow ? { top: `${y + 16}px` } : { bottom: `${box.height - y + 16}px` }) };
  return html`<div class=${`map-tip ${pointed.isFixed ? "fixed" : ""}`} role="status" style=${place}>${found ? html`<${PointText} found=${found} isLinked=${pointed.isFixed} />` : html`<span class="faint">${t("common.loading")}</span>`}</div>`;
}

export function PointText({ found, isLinked }) {
  if (found.error) return html`<span>${found.error.message || t("common.unreachable")}</span>`;
  if (!found.memory_id) return html`<span class="faint">${t("map.gone")}</span>`;
  return html`<p class="words">${found.text}</p><div class="row"><${TypeChip} type=${found.type} /><span class="small faint"><${When} time=${found.created_at} /></span>${isLinked && html`<a class="small" href=${address("memory", found.memory_id)}>${t("map.open")}</a>`}</div>`;
}

function usePointed(reader, pointed) {
  const [found, setFound] = useState(null);
  const index = pointed?.index ?? -1;
  useEffect(() => {
    setFound(null);
    if (index < 0) return undefined;
    let current = true;
    const timer = setTimeout(async () => {
      const answer = await reader.one(index).catch((error) => ({ error }));
      if (current) setFound(answer);
    }, READ_AFTER);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [reader, index]);
  return found;
}
