// The newest map of the daemon: asked for until there is one, and again after memories have changed.

import { useCallback, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { call, mapPoints } from "../api.js";
import { useReloadOnChange } from "../ui/state.js";
import { decode, Grid } from "./points.js";

const WHILE_COMPUTING = 300; // milliseconds until the next question
const WHILE_UPDATING = 1500;
const MOST = 5000; // points of one call

// {map: {info, points, grid} or null, progress: {share} or null, error, updating, ask}. `ask(true)`
// lays everything out anew. `isHeld()`: whether the map that is shown must stay for now.
export function useMap(isHeld) {
  const [state, setState] = useState({ map: null, progress: null, error: null, updating: false });
  const now = useRef({ revision: null, timer: 0, alive: true });
  const ask = useCallback(async (renew = false) => {
    const mine = now.current;
    clearTimeout(mine.timer);
    const again = (wait) => { if (mine.alive) mine.timer = setTimeout(ask, wait); };
    try {
      const info = await call("map", renew ? { renew: true } : {});
      if (!mine.alive) return;
      if (info.state === "computing") {
        setState((old) => ({ ...old, progress: { share: info.progress }, error: null }));
        again(WHILE_COMPUTING);
        return;
      }
      const isNew = info.revision !== mine.revision;
      const found = isNew && !isHeld() ? await fetched(info) : null;
      if (!mine.alive) return;
      const map = isHeld() ? null : found; // something may have been selected meanwhile
      if (map) mine.revision = info.revision;
      setState((old) => ({ map: map ?? old.map, progress: null, error: null, updating: info.updating }));
      if (info.updating || (isNew && !map)) again(WHILE_UPDATING);
    } catch (error) {
      if (!mine.alive) return;
      if (error.code === "map_changed") again(WHILE_COMPUTING);
      else setState((old) => ({ ...old, progress: null, error, updating: false }));
    }
  }, []);
  useEffect(() => {
    now.current.alive = true;
    ask();
    return () => {
      now.current.alive = false;
      clearTimeout(now.current.timer);
    };
  }, []);
  useReloadOnChange(() => ask(), 1500);
  return { ...state, ask };
}

async function fetched(info) {
  const points = decode(await mapPoints(info.revision));
  return { info, points, grid: new Grid(points) };
}

// Reads the memories of points; what was read is kept for as long as the revision is shown.
export class Reader {
  constructor(revision) {
    this.revision = revision;
    this.known = new Map();
    this.indexes = new Map(); // of ids that were read
  }

  // {memory_id, text, type, created_at} of one point; memory_id is null if it is gone.
  one(index) {
    if (!this.known.has(index)) {
      const reading = this.some([index]).then(([found]) => found);
      reading.catch(() => this.known.delete(index));
      this.known.set(index, reading);
    }
    return this.known.get(index);
  }

  // The same of up to 50 points; of more, without text.
  async some(indexes) {
    return (await call("map_points", { revision: this.revision, indexes })).points;
  }

  // The ids of any number of points, without those that are gone.
  async ids(indexes) {
    const found = [];
    for (let from = 0; from < indexes.length; from += MOST) {
      for (const { index, memory_id: id } of await this.some(indexes.slice(from, from + MOST))) {
        if (id) found.push(id);
        if (id) this.indexes.set(id, index);
      }
    }
    return found;
  }
}
