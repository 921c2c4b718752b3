// The filters of Browse: from the address to the arguments of a call, and the bar that sets them.

import { html, useState } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { Button, Select, Tabs } from "./widgets.js";

const DAY = 86400000;
const AGES = { today: 0, week: 7, month: 30, quarter: 90 };
const FLAGS = ["pinned", "needs_review"];
const VALUES = ["kind", "project", "tag", "source", "session"];
// Filters that only links set, such as those of the overview: what has one of these keys.
const MARKS = { stale: "stale_files", deprecated: "deprecated_at" };
export const FILTERS = ["type", ...VALUES, "age", ...FLAGS, ...Object.keys(MARKS)];
export const NO_PROJECT = "-"; // in the address: memories of no project

// The arguments of list_memories and search_memories for the filters in the address.
export function filterArguments(query, now = new Date()) {
  const args = { memory_type: query.type, kind: query.kind, tag: query.tag, source: query.source, session_id: query.session };
  const metadata = {};
  for (const [name, key] of Object.entries(MARKS)) if (query[name]) metadata[key] = { $exists: true };
  if (query.project === NO_PROJECT) metadata.project = { $exists: false };
  else args.project = query.project;
  if (Object.keys(metadata).length) args.metadata = metadata;
  if (query.pinned) args.pinned = true;
  if (query.needs_review) args.needs_review = true;
  if (query.age === "older") args.until = new Date(now - 90 * DAY).toISOString();
  else if (query.age in AGES) args.since = since(AGES[query.age], now).toISOString();
  return Object.fromEntries(Object.entries(args).filter(([, value]) => value));
}

function since(days, now) {
  const start = new Date(now - days * DAY);
  start.setHours(0, 0, 0, 0); // so that the same filter gives the same call all day
  return start;
}

// `onChange` gets the filters that change; "" removes one. `known`: the answer of `filters`.
export function FilterBar({ query, known, onChange }) {
  const [open, setOpen] = useState(false);
  const count = FILTERS.filter((name) => query[name]).length;
  const clear = () => onChange(Object.fromEntries(FILTERS.map((name) => [name, ""])));
  return html`<div class="filters">
    <div class="spread">
      <${Tabs} label=${t("browse.type")} value=${query.type ?? ""} onChange=${(type) => onChange({ type })} choices=${["", "fact", "conversation", "context"].map((type) => [type, t(`browse.only_${type || "all"}`)])} />
      <div class="row"><${Button} kind="filters-toggle" icon="filter" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>${t("browse.filters")}${count > 0 && html`<span class="badge">${count}</span>`}<//>${count > 0 && html`<${Button} kind="quiet" onClick=${clear}>${t("browse.clear")}<//>`}</div>
    </div>
    <div class=${`filter-fields ${open ? "open" : ""}`}>
      ${VALUES.map((name) => html`<${Select} key=${name} label=${t(`browse.${name}`)} value=${query[name] ?? ""} onChange=${(value) => onChange({ [name]: value })} choices=${choices(name, known, query[name])} />`)}
      <${Select} label=${t("browse.age")} value=${query.age ?? ""} onChange=${(age) => onChange({ age })} choices=${["", ...Object.keys(AGES), "older"].map((age) => [age, t(`browse.age_${age || "any"}`)])} />
      ${FLAGS.map((name) => html`<${Button} key=${name} aria-pressed=${String(Boolean(query[name]))} onClick=${() => onChange({ [name]: query[name] ? "" : "1" })}>${t(`browse.only_${name}`)}<//>`)}
      ${Object.keys(MARKS).filter((name) => query[name]).map((name) => html`<${Button} key=${name} aria-pressed="true" onClick=${() => onChange({ [name]: "" })}>${t(`overview.${name}`)}<//>`)}
    </div>
  </div>`;
}

// The values to choose from, with the chosen one even if it has no memories any more.
function choices(name, known, chosen) {
  const found = name === "session" ? sessions(known) : values(known?.[`${name}s`]);
  if (name === "project" && known?.projects.some(({ value }) => value === null)) found.push([NO_PROJECT, t("browse.no_project")]);
  if (chosen && !found.some(([value]) => value === chosen)) found.push([chosen, chosen]);
  return [["", t(`browse.any_${name}`)], ...found];
}

const values = (counts = []) => counts.filter(({ value }) => value !== null).map(({ value, memories }) => [value, `${value} (${memories})`]);
const sessions = (known) => (known?.sessions ?? []).map(({ session_id: id, title }) => [id, title || id]);
