// What views share: answers of calls, events of the daemon, short messages, and what can be undone.

import { useCallback, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { call, listen } from "../api.js";

// The answer of a call, made again when its arguments change or `reload` is called. The old answer
// stays while a new one is awaited; answers that come too late are dropped. `tool` null: no call.
export function useCall(tool, args = {}, { every = 0 } = {}) {
  const key = JSON.stringify([tool, args]);
  const [found, setFound] = useState({ answer: null, error: null, busy: Boolean(tool), key });
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((now) => now + 1), []);
  useEffect(() => {
    if (!tool) return undefined;
    const ending = new AbortController();
    setFound((now) => ({ ...now, busy: true }));
    call(tool, args, { signal: ending.signal }).then(
      (answer) => setFound({ answer, error: null, busy: false, key }),
      (error) => error.name !== "AbortError" && setFound((now) => ({ ...now, error, busy: false })),
    );
    return () => ending.abort();
  }, [key, round]);
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => document.hidden || reload(), every);
    return () => clearInterval(timer);
  }, [every]);
  return { ...found, isCurrent: found.key === key, reload };
}

// A value that follows another one once it has been still for a while.
export function useDebounced(value, wait = 180) {
  const [still, setStill] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setStill(value), wait);
    return () => clearTimeout(timer);
  }, [value, wait]);
  return still;
}

// One stream of events for the whole page, while somebody needs it.
const listeners = new Set();
let stop = null;

export function useEvents(react) {
  const latest = useRef(react);
  latest.current = react;
  useEffect(() => {
    const listener = (event, data) => latest.current(event, data);
    listeners.add(listener);
    stop ??= listen((event, data) => listeners.forEach((one) => one(event, data)));
    return () => {
      listeners.delete(listener);
      if (!listeners.size) {
        stop?.();
        stop = null;
      }
    };
  }, []);
}

// Calls `reload` after memories have changed, at most once in `wait` milliseconds.
export function useReloadOnChange(reload, wait = 1500) {
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  useEvents((event) => {
    if (event !== "changed" || timer.current) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      reload();
    }, wait);
  });
}

// Short messages. `undo` makes a button; `commit` runs when the message goes without it, also when
// the page is left. `isLong`: it is more than one call, which a page that is left cannot finish.
const toasts = { list: [], watchers: new Set(), next: 1 };

export function useToasts() {
  const [list, setList] = useState(toasts.list);
  useEffect(() => {
    toasts.watchers.add(setList);
    return () => toasts.watchers.delete(setList);
  }, []);
  return list;
}

function show(list) {
  toasts.list = list;
  for (const update of toasts.watchers) update(list);
}

export function toast(text, { undo = null, commit = null, isLong = false, seconds = undo ? 8 : 4 } = {}) {
  const one = { id: toasts.next++, text, undo, commit, isLong };
  one.timer = setTimeout(() => settle(one), seconds * 1000);
  show([...toasts.list, one]);
  return one;
}

export function settle(one, { undone = false } = {}) {
  if (!toasts.list.includes(one)) return;
  clearTimeout(one.timer);
  show(toasts.list.filter((other) => other !== one));
  if (undone) one.undo?.();
  else one.commit?.();
}

addEventListener("pagehide", () => toasts.list.forEach((one) => one.commit && settle(one)));
addEventListener("beforeunload", (event) => toasts.list.some((one) => one.isLong) && event.preventDefault());
