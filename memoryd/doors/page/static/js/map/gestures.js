// What fingers, the mouse and its wheel do on the map: pan, zoom, point, tap, draw a lasso.

const DRAG_FROM = 4; // pixels from which a press is no tap any more

// Calls `on.pan(dx, dy)`, `on.zoom(factor, x, y)`, `on.point(x, y)`, `on.leave()`, `on.tap(x, y, isTouch)` and
// `on.lasso(path, isDone)`; `on.wantsLasso(event)` decides what a drag does. Places are in pixels of the
// element. Returns a function that ends it.
export function watchGestures(element, on) {
  const ending = new AbortController();
  const listen = (type, react, options = {}) => element.addEventListener(type, react, { ...options, signal: ending.signal });
  const state = { pressed: new Map(), start: null, path: null, moved: false, isTap: true };
  const at = (event) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  listen("pointerdown", (event) => !isControl(event) && press(state, on, event, at(event)));
  listen("pointermove", (event) => move(state, on, event, at(event), element));
  listen("pointerup", (event) => release(state, on, event, at(event)));
  listen("pointercancel", (event) => release(state, on, event, null));
  listen("pointerleave", (event) => event.pointerType === "mouse" && !state.pressed.size && on.leave());
  listen("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    on.zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) * (event.ctrlKey ? 0.01 : 0.002)), ...at(event));
  }, { passive: false });
  return () => ending.abort();
}

// A label may be dragged with the map, but a tap is its own; other controls have nothing to do with it.
const isControl = (event) => event.target.closest("a, button, .map-tip") && !isLabel(event);
const isLabel = (event) => Boolean(event.target.closest(".map-labels button"));

function press(state, on, event, place) {
  if (event.button !== 0) return;
  state.isTap = !isLabel(event);
  state.pressed.set(event.pointerId, place);
  if (state.pressed.size === 1) {
    state.start = place;
    state.moved = false;
    state.path = on.wantsLasso(event) ? [place] : null;
  } else {
    if (state.path) on.lasso(null, false);
    state.path = null; // two fingers zoom
    state.moved = true;
  }
}

function move(state, on, event, place, element) {
  const before = state.pressed.get(event.pointerId);
  if (!before) {
    if (event.pointerType === "mouse" && event.target.closest("button")) on.leave();
    else if (event.pointerType === "mouse") on.point(...place);
    return;
  }
  if (!state.moved && Math.hypot(place[0] - state.start[0], place[1] - state.start[1]) < DRAG_FROM) return;
  if (!state.moved) {
    state.moved = true;
    element.setPointerCapture(event.pointerId);
    on.leave();
  }
  const others = [...state.pressed].filter(([id]) => id !== event.pointerId);
  state.pressed.set(event.pointerId, place);
  if (others.length) pinch(on, before, place, others[0][1]);
  else if (state.path) {
    state.path.push(place);
    on.lasso(state.path, false);
  } else on.pan(place[0] - before[0], place[1] - before[1]);
}

function pinch(on, before, place, other) {
  const distance = (a) => Math.max(1, Math.hypot(a[0] - other[0], a[1] - other[1]));
  on.pan((place[0] - before[0]) / 2, (place[1] - before[1]) / 2);
  on.zoom(distance(place) / distance(before), (place[0] + other[0]) / 2, (place[1] + other[1]) / 2);
}

function release(state, on, event, place) {
  if (!state.pressed.delete(event.pointerId)) return;
  const path = state.path;
  if (!state.pressed.size && path && state.moved) on.lasso(place ? path : null, true);
  else if (!state.pressed.size && !state.moved && state.isTap && place) on.tap(...place, event.pointerType !== "mouse");
  if (!state.pressed.size) state.path = null;
}
