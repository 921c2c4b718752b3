// A memory in a list, and what can be done with one from anywhere.

import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { number, t } from "../i18n.js";
import { address } from "../router.js";
import { Icon } from "./icons.js";
import { toast } from "./state.js";
import { Chip, Meter, TypeChip, When } from "./widgets.js";

// The words of a query that stand in a text are marked.
export function Marked({ text, query = "" }) {
  const words = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [])];
  if (!words.length) return text;
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[^\p{L}\p{N}]/gu, "")).join("|")})`, "giu");
  return text.split(pattern).map((part, place) => (place % 2 ? html`<mark key=${place}>${part}</mark>` : part));
}

// `lead`: what stands before it, such as a checkbox; `children`: what stands after it.
export function MemoryRow({ memory, query, lead, children, href = address("memory", memory.id) }) {
  const { kind, project, tags, needs_review: review, source } = memory.metadata ?? {};
  const text = memory.passage ?? memory.content;
  return html`<li class="memory" data-id=${memory.id}>
    <div>${lead}</div>
    <div class="body">
      <a class="words" href=${href}><${Marked} text=${text} query=${query} /></a>
      <div class="facts-line">
        <${TypeChip} type=${memory.type} />
        ${memory.pinned && html`<${Chip} kind="good">${t("memory.pinned")}<//>`}
        ${review && html`<${Chip} kind="warning">${t("memory.needs_review")}<//>`}
        ${kind && html`<${Chip}>${kind}<//>`}
        ${memory.name && html`<span class="cut">${memory.name}</span>`}
        ${project && html`<span class="cut">${project}</span>`}
        ${source && html`<span class="cut">${source}</span>`}
        ${(Array.isArray(tags) ? tags : tags ? [tags] : []).slice(0, 6).map((tag) => html`<span key=${tag}>#${tag}</span>`)}
        <${When} time=${memory.created_at} />
        ${memory.expires_at && html`<span>${t("memory.expires")} <${When} time=${memory.expires_at} /></span>`}
      </div>
    </div>
    <div class="stack tight">${memory.score !== undefined && html`<${Meter} share=${memory.score} label=${t("memory.score", { score: number(memory.score, 2) })} />`}${children}</div>
  </li>`;
}

// A memory named shortly, as operations on memories name others: {id, text, type}.
export function ShortMemory({ memory, children }) {
  return html`<li class="short-memory"><${TypeChip} type=${memory.type} /> <a class="grow cut" href=${address("memory", memory.id)}>${memory.text}</a> <span class="small faint"><${When} time=${memory.created_at} /></span>${children}</li>`;
}

// Memories that were forgotten here: lists leave them out, from the click on. Those that were
// committed stay in the set for a while, until every list has been read again.
const forgotten = { ids: new Set(), watchers: new Set() };
const AFTER_COMMIT = 10000;
const MOST = 1000; // ids of one call

function hide(ids, hidden) {
  ids.forEach((id) => (hidden ? forgotten.ids.add(id) : forgotten.ids.delete(id)));
  for (const update of forgotten.watchers) update((now) => now + 1);
}

// A function that tells whether a memory is to be shown.
export function useShown() {
  const [, update] = useState(0);
  useEffect(() => {
    forgotten.watchers.add(update);
    return () => forgotten.watchers.delete(update);
  }, []);
  return ({ id }) => !forgotten.ids.has(id);
}

// Forgets after a while in which it can be undone: nothing is sent until then.
export function forgetSoon(ids) {
  hide(ids, true);
  toast(t("memory.forgotten", { n: ids.length }), {
    undo: () => hide(ids, false),
    isLong: ids.length > MOST,
    commit: async () => {
      try {
        for (let from = 0; from < ids.length; from += MOST) {
          await call("forget_by_ids", { memory_ids: ids.slice(from, from + MOST) }, { last: true });
        }
        setTimeout(() => hide(ids, false), AFTER_COMMIT);
      } catch (error) {
        hide(ids, false);
        toast(error.message || t("common.unreachable"));
      }
    },
  });
}

export function Warnings({ warnings = [] }) {
  return warnings.map((text) => html`<div class="notice warning" key=${text} role="status"><${Icon} name="warning" /><div>${text}</div></div>`);
}
