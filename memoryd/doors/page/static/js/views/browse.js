// Search as you type, filters in the address bar, a list and a timeline, and actions on what is chosen.

import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { clockTime, day, number, t } from "../i18n.js";
import { address, go } from "../router.js";
import { BulkBar } from "../ui/bulk.js";
import { FILTERS, FilterBar, filterArguments } from "../ui/filters.js";
import { Icon } from "../ui/icons.js";
import { MemoryRow, Warnings, useShown } from "../ui/memory.js";
import { useCall, useDebounced, useReloadOnChange } from "../ui/state.js";
import { Busy, Button, Empty, ErrorNotice, Head, Notice, Select, Tabs, TypeChip } from "../ui/widgets.js";

const PAGE = 40;
const MOST_PICKED = 1000; // ids of one call
const ORDERS = ["newest", "oldest", "expiring", "most_used", "least_sure"];

export default function Browse({ place }) {
  const { query } = place;
  const [text, setText] = useState(place.state.text ?? "");
  const known = useCall("filters");
  const change = (changed) => go(address("browse", "", { ...query, ...changed }), { replace: true, state: picked ? { text, ids: picked, of } : { text } });
  const still = useDebounced(text.trim());
  const [{ ids: picked = null, of = 0 }, setPicked] = useState(place.state); // memories that were selected on the map
  useEffect(() => { // another entry of the history, or the link in the navigation
    setText(place.state.text ?? "");
    setPicked(place.state);
  }, [place]);
  useEffect(() => history.replaceState(picked ? { text: still, ids: picked, of } : { text: still }, ""), [still, picked]);
  useEffect(() => { if (still || FILTERS.some((name) => query[name])) setPicked({}); }, [still, JSON.stringify(query)]);
  const all = useMemories(still, query);
  const some = usePicked(picked);
  const found = picked ? some : all;
  const [chosen, setChosen] = useState(new Set());
  useEffect(() => setChosen(new Set()), [still, JSON.stringify(query)]);
  const memories = found.memories.filter(useShown());
  const done = () => {
    setChosen(new Set());
    found.reload();
    known.reload();
  };
  useKeys();
  return html`
    <${Head} title=${t("browse.title")} lead=${t("browse.lead")} />
    <div class="search-box"><${Icon} name="browse" /><input class="input" id="search" type="search" autocomplete="off" spellcheck="false" aria-label=${t("browse.search")} placeholder=${t("browse.placeholder")} value=${text} onInput=${(event) => setText(event.target.value)} /></div>
    <${FilterBar} query=${query} known=${known.answer} onChange=${change} />
    <div class="spread">
      <div class="row"><${Choose} memories=${memories} chosen=${chosen} onChange=${setChosen} /><span class="soft number" role="status">${counted(found, still)}</span></div>
      <div class="row">
        ${!still && html`<${Select} label=${t("browse.order")} value=${query.order ?? ORDERS[0]} onChange=${(order) => change({ order: order === ORDERS[0] ? "" : order })} choices=${ORDERS.map((order) => [order, t(`browse.order_${order}`)])} />`}
        <${Tabs} label=${t("browse.shape")} value=${query.shape ?? "list"} onChange=${(shape) => change({ shape: shape === "list" ? "" : shape })} choices=${["list", "timeline"].map((shape) => [shape, t(`browse.${shape}`)])} />
      </div>
    </div>
    ${picked && html`<${Notice} icon="map">${t("browse.picked", { n: of })} ${of > picked.length && t("browse.picked_first", { n: picked.length })} <${Button} kind="small" onClick=${() => setPicked({})}>${t("browse.picked_clear")}<//><//>`}
    <${Warnings} warnings=${found.warnings} />
    ${found.error && html`<${ErrorNotice} error=${found.error} onRetry=${found.reload} />`}
    <${Results} found=${found} memories=${memories} text=${still} query=${query} chosen=${chosen} onChoose=${setChosen} />
    <${BulkBar} ids=${[...chosen]} onDone=${done} onClear=${() => setChosen(new Set())} />`;
}

function counted(found, text) {
  if (!found.ready) return "";
  return t(text ? "browse.results" : "browse.memories", { n: text ? found.memories.length : found.total });
}

// Memories by their ids, some more with each click.
function usePicked(ids) {
  const [count, setCount] = useState(PAGE);
  const wanted = (ids ?? []).slice(0, Math.min(count, MOST_PICKED));
  const { answer, error, busy, reload } = useCall(wanted.length ? "read_memories" : null, { memory_ids: wanted });
  useReloadOnChange(reload);
  const more = ids && wanted.length < Math.min(ids.length, MOST_PICKED) ? () => setCount(count + PAGE) : null;
  return { memories: answer?.memories ?? [], warnings: [], total: ids?.length ?? 0, error, busy, ready: Boolean(answer), reload, more };
}

// The results of a search, or pages of the list. What is shown stays while the next answer is awaited.
function useMemories(text, query) {
  const args = useMemo(() => filterArguments(query), [JSON.stringify(query)]);
  const searched = useCall(text ? "search_memories" : null, { query: text, limit: 60, explain: true, count_use: false, ...args });
  const order = query.order ?? (query.shape === "timeline" ? ORDERS[0] : undefined);
  const listed = usePages("list_memories", { limit: PAGE, order, ...args }, !text);
  useReloadOnChange(() => (text ? searched : listed).reload());
  if (!text) return listed;
  const { answer, error, busy, reload } = searched;
  return { memories: answer?.results ?? [], warnings: answer?.warnings ?? [], total: 0, error, busy, ready: Boolean(answer), reload, more: null };
}

// Pages of a list, one after the other. A reload reads as many again as were shown.
function usePages(tool, args, isOn) {
  const key = JSON.stringify([args, isOn]);
  const [state, setState] = useState({ memories: [], total: 0, cursor: null, error: null, busy: true, ready: false, warnings: [] });
  const shown = useRef(PAGE);
  const latest = useRef(null);
  const read = async (cursor, limit) => {
    latest.current?.abort();
    const ending = (latest.current = new AbortController());
    setState((now) => ({ ...now, busy: true }));
    try {
      const answer = await call(tool, { ...args, limit, cursor }, { signal: ending.signal });
      setState((now) => ({ ...now, memories: cursor ? [...now.memories, ...answer.memories] : answer.memories, total: answer.total, cursor: answer.cursor, error: null, busy: false, ready: true }));
    } catch (error) {
      if (error.name !== "AbortError") setState((now) => ({ ...now, error, busy: false }));
    }
  };
  useEffect(() => {
    shown.current = PAGE;
    if (isOn) read(null, PAGE);
    return () => latest.current?.abort();
  }, [key]);
  const more = () => {
    shown.current += PAGE;
    read(state.cursor, PAGE);
  };
  return { ...state, more: state.cursor ? more : null, reload: () => isOn && read(null, Math.min(1000, shown.current)) };
}

function Results({ found, memories, text, query, chosen, onChoose }) {
  if (!found.ready && found.busy) return html`<${Busy} />`;
  if (!memories.length && found.ready) {
    const narrowed = text || FILTERS.some((name) => query[name]);
    return html`<${Empty} icon="browse" title=${t(narrowed ? "browse.nothing_found" : "browse.nothing_yet")}>${t(narrowed ? "browse.nothing_found_hint" : "browse.nothing_yet_hint")}<//>`;
  }
  const toggle = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    onChoose(next);
  };
  const Shape = query.shape === "timeline" ? Timeline : List;
  return html`<div aria-busy=${String(found.busy)}><${Shape} memories=${memories} text=${text} chosen=${chosen} onToggle=${toggle} /></div>${found.more && html`<div class="row center"><${Button} onClick=${found.more} disabled=${found.busy}>${t("common.more")}<//></div>`}`;
}

function List({ memories, text, chosen, onToggle }) {
  return html`<ul class="card memories">${memories.map((memory) => html`<${MemoryRow} key=${memory.id} memory=${memory} query=${text} lead=${html`<${Tick} memory=${memory} chosen=${chosen} onToggle=${onToggle} />`}>${memory.why && html`<${Why} why=${memory.why} />`}<//>`)}</ul>`;
}

const Tick = ({ memory, chosen, onToggle }) => html`<input type="checkbox" class="tick" aria-label=${t("browse.choose", { text: memory.content.slice(0, 60) })} checked=${chosen.has(memory.id)} onChange=${() => onToggle(memory.id)} />`;

// All that are shown, or none of them.
function Choose({ memories, chosen, onChange }) {
  if (!memories.length) return null;
  const all = memories.every(({ id }) => chosen.has(id));
  const toggle = () => onChange(all ? new Set() : new Set([...chosen, ...memories.map(({ id }) => id)]));
  return html`<label class="check"><input type="checkbox" checked=${all} onChange=${toggle} />${t("browse.choose_all")}</label>`;
}

// What the score is made of.
function Why({ why }) {
  const parts = Object.entries(why).filter(([, value]) => typeof value === "number" && Math.abs(value) >= 0.005);
  if (!parts.length) return null;
  return html`<details class="why"><summary>${t("browse.why")}</summary><dl>${parts.map(([name, value]) => html`<dt key=${name}>${t(`why.${name}`)}</dt><dd class="number">${value > 0 ? "+" : ""}${number(value, 2)}</dd>`)}</dl></details>`;
}

// By day, the newest first; a search keeps its results and only orders them by time.
function Timeline({ memories, text, chosen, onToggle }) {
  const ordered = text ? [...memories].sort((a, b) => b.created_at.localeCompare(a.created_at)) : memories;
  const days = new Map();
  for (const memory of ordered) {
    const key = memory.created_at.slice(0, 10);
    days.set(key, [...(days.get(key) ?? []), memory]);
  }
  return html`<ol class="timeline">${[...days].map(([key, list]) => html`<li key=${key}><h2>${day(key)} <span class="badge">${list.length}</span></h2><ol>${list.map((memory) => html`<li class="moment" key=${memory.id}><${Tick} memory=${memory} chosen=${chosen} onToggle=${onToggle} /><time class="small faint number">${clockTime(memory.created_at)}</time><${TypeChip} type=${memory.type} /><a class="grow words" href=${address("memory", memory.id)}>${memory.passage ?? memory.content}</a></li>`)}</ol></li>`)}</ol>`;
}

// "/" goes to the search box from anywhere.
function useKeys() {
  useEffect(() => {
    const react = (event) => {
      if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
      event.preventDefault();
      document.getElementById("search")?.focus();
    };
    addEventListener("keydown", react);
    return () => removeEventListener("keydown", react);
  }, []);
}
