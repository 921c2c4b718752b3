// The memories that wait for a review, in the order in which they came. What is handled in this visit
// stays in the queue with its outcome, so that one can go back to it.

import { useCallback, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { t } from "../i18n.js";
import { toast, useReloadOnChange } from "../ui/state.js";

const PAGE = 100;
const OPEN = ["waiting", "skipped"];
const NEXT_PAGE_AT = 20; // items before the end

export const isOpen = (item) => OPEN.includes(item.state);

// {items: [{id, memory, state}], place, total, done, error, failed, ...what one can do}. `place` is the
// number of the item that is shown, items.length after the last.
export function useQueue() {
  const [queue, setQueue] = useState({ items: null, place: 0, total: 0, cursor: null, error: null, failed: null });
  const load = useCallback(async (cursor = null) => {
    try {
      const page = await call("list_memories", { metadata: { needs_review: true }, order: "oldest", limit: PAGE, ...(cursor ? { cursor } : {}) });
      setQueue((now) => merged(now, page, Boolean(cursor)));
    } catch (error) {
      setQueue((now) => ({ ...now, error }));
    }
  }, []);
  useEffect(() => { load(); }, []);
  useReloadOnChange(() => load());
  const { items, place, cursor } = queue;
  const asked = useRef(null);
  useEffect(() => {
    if (!cursor || !items || asked.current === cursor || place < items.length - NEXT_PAGE_AT) return;
    asked.current = cursor;
    load(cursor);
  }, [cursor, place, items?.length]);
  const moveTo = (next) => setQueue((now) => ({ ...now, place: Math.max(0, Math.min(now.items.length, next)), failed: null }));
  const put = (id, state, failed = null) => setQueue((now) => stateOf(now, id, state, failed));
  return { ...queue, ...countsOf(queue), load, moveTo, skip: () => setQueue(skipped), ...actionsOf(put) };
}

// Nothing is sent for a rejected memory until it cannot be undone any more.
function actionsOf(put) {
  const send = async (id, given, options) => {
    try {
      await call("review_memory", { memory_id: id, ...given }, options);
    } catch (error) {
      put(id, "waiting", { id, error });
    }
  };
  return {
    confirm: (id) => {
      put(id, "confirmed");
      send(id, { action: "confirm" });
    },
    correct: async (id, content) => {
      await call("review_memory", { memory_id: id, action: "correct", content });
      put(id, "corrected");
    },
    reject: (id) => {
      put(id, "rejected");
      toast(t("review.rejected"), {
        undo: () => put(id, "waiting"),
        commit: () => send(id, { action: "reject" }, { last: true }),
      });
    },
  };
}

// A new page of the list: known items keep their state; what waits no more, because somebody else has
// reviewed it, is left out.
function merged(now, page, isNext) {
  const fresh = new Map(page.memories.map((memory) => [memory.id, memory]));
  const isAll = !isNext && !page.cursor;
  const known = now.items ?? [];
  const current = known[now.place];
  const kept = known
    .filter((item) => !isAll || !isOpen(item) || fresh.has(item.id))
    .map((item) => ({ ...item, memory: fresh.get(item.id) ?? item.memory }));
  const ids = new Set(kept.map((item) => item.id));
  const added = page.memories.filter((memory) => !ids.has(memory.id)).map((memory) => ({ id: memory.id, memory, state: "waiting" }));
  const items = [...kept, ...added];
  const at = current ? items.findIndex((item) => item.id === current.id) : known.length && !added.length ? items.length : Math.min(now.place, kept.length);
  const cursor = isNext || !now.items ? page.cursor : now.cursor;
  return { ...now, items, place: at < 0 ? Math.min(now.place, items.length) : at, total: page.total, cursor, error: null };
}

// Sets the state of an item, and shows the next one that waits; one that waits again is shown itself.
function stateOf(now, id, state, failed) {
  const items = now.items.map((item) => (item.id === id ? { ...item, state } : item));
  const at = items.findIndex((item) => item.id === id);
  if (state === "waiting") return { ...now, items, place: at, failed };
  const next = items.findIndex((item, place) => place > at && isOpen(item));
  return { ...now, items, place: next < 0 ? items.length : next, failed };
}

function skipped(now) {
  const items = now.items.map((item, place) => (place === now.place && item.state === "waiting" ? { ...item, state: "skipped" } : item));
  return { ...now, items, place: Math.min(items.length, now.place + 1), failed: null };
}

// `length`: how many there are with those that were handled and those that are not loaded yet.
function countsOf({ items, total, cursor }) {
  const done = (items ?? []).filter((item) => !isOpen(item)).length;
  const length = cursor ? Math.max(items.length, total + (items ?? []).filter((item) => ["confirmed", "corrected"].includes(item.state)).length) : (items ?? []).length;
  return { done, length };
}
