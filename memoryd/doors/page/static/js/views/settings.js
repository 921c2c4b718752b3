// Every setting: its value, its default, where it was set, and how to change it.

import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { address, go } from "../router.js";
import { Copyable } from "../ui/copy.js";
import { Icon } from "../ui/icons.js";
import { Marked } from "../ui/memory.js";
import { useCall, useDebounced } from "../ui/state.js";
import { Answer, Chip, Empty, Head, Select, Tabs } from "../ui/widgets.js";

// The address holds the section and whether only changed settings are shown; the text that is
// searched for stays in the history entry.
export default function Settings({ place }) {
  const asked = useCall("settings");
  const [text, setText] = useState(place.state.text ?? "");
  useEffect(() => setText(place.state.text ?? ""), [place]);
  const wanted = useDebounced(text, 80);
  const { argument: section, query } = place;
  const show = (to, changed = query.changed) => go(address("settings", to, { changed }), { replace: true, state: { text } });
  useEffect(() => history.replaceState({ ...history.state, text: wanted }, ""), [wanted]);
  return html`<${Head} title=${t("settings.title")} lead=${t("settings.lead")} />
    <${Answer} of=${asked}>${(found) => html`<${How} found=${found} />
      <div class="settings-bar"><div class="search-box grow"><${Icon} name="browse" /><input class="input" type="search" aria-label=${t("settings.search")} placeholder=${t("settings.search")} value=${text} onInput=${(event) => setText(event.target.value)} /></div>
        <${Select} label=${t("settings.section")} value=${section} onChange=${(to) => show(to)} choices=${[["", t("settings.all_sections")], ...found.sections.map((one) => [one.section, one.section])]} />
        <${Tabs} label=${t("settings.which")} value=${query.changed ? "changed" : "all"} choices=${[["all", t("settings.all")], ["changed", t("settings.changed")]]} onChange=${(which) => show(section, which === "changed" ? 1 : "")} /></div>
      <${Sections} found=${found} section=${section} changed=${Boolean(query.changed)} text=${wanted} />`}<//>`;
}

function How({ found: { file, sections } }) {
  const isUsed = sections.some(({ settings }) => settings.some(({ from }) => from === "file"));
  return html`<div class="card how"><p>${t("settings.how")}</p><div class="row"><span class="soft">${t("settings.file")}</span><${Copyable} text=${file} />${!isUsed && html`<span class="small faint">${t("settings.no_file")}</span>`}</div></div>`;
}

function matches(setting, words) {
  const all = `${setting.key} ${variableOf(setting)} ${setting.description} ${setting.secret ? "" : shown(setting.value)}`.toLowerCase();
  return words.every((word) => all.includes(word));
}

function Sections({ found, section, changed, text }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (setting) => (!changed || setting.from !== "default") && matches(setting, words);
  const parts = found.sections.filter((one) => !section || one.section === section).map((one) => ({ ...one, settings: one.settings.filter(fits) })).filter((one) => one.settings.length);
  const count = parts.reduce((sum, one) => sum + one.settings.length, 0);
  return html`<p class="small faint" role="status">${t("settings.count", { n: count })}</p>
    ${count === 0 && html`<${Empty} icon="settings" title=${t("settings.none")}>${changed && !words.length ? t("settings.none_changed") : t("settings.none_lead")}<//>`}
    ${parts.map((one) => html`<section class="card settings-section" key=${one.section}><h2>${one.section}</h2>${one.description && html`<p class="small soft">${one.description}</p>`}<ul>${one.settings.map((setting) => html`<${Setting} key=${setting.key} setting=${setting} file=${found.file} text=${text} />`)}</ul></section>`)}`;
}

const CHIPS = { default: "", file: "good", variable: "warning", flag: "conversation" };

function Setting({ setting, file, text }) {
  const isChanged = setting.from !== "default";
  return html`<li class="setting"><div class="about"><code class="key"><${Marked} text=${setting.key} query=${text} /></code><p class="small soft"><${Marked} text=${setting.description} query=${text} /></p></div>
    <div class="values"><div class="row tight value-row"><${Value} setting=${setting} value=${setting.value} /><${Chip} kind=${CHIPS[setting.from] ?? ""}>${t(`settings.from_${setting.from}`)}<//></div>
      ${isChanged && html`<p class="small faint">${t("settings.default")} <${Value} setting=${setting} value=${setting.default} isDefault /></p>`}
      ${isChanged && setting.where && html`<p class="small faint text">${t(`settings.where_${setting.from}`, { where: setting.where.replace(/^(variable|flag) /, "") })}</p>`}
      <${Unfold} title=${html`<span class="small">${t("settings.change")}</span>`}>${() => html`<${Change} setting=${setting} file=${file} />`}<//></div></li>`;
}

// What is folded is not rendered before it is opened: there are many settings.
function Unfold({ title, children }) {
  const [open, setOpen] = useState(false);
  return html`<details open=${open} onToggle=${(event) => setOpen(event.target.open)}><summary>${title}</summary>${open && children()}</details>`;
}

function Change({ setting, file }) {
  const [section, name] = setting.key.split(/\.(.*)/s);
  return html`<div class="change stack tight"><p class="small soft">${t("settings.in_file", { file })}</p><pre>${`${section}:\n  ${name}: ${setting.secret ? "…" : yaml(setting.value)}`}</pre>
    <p class="small soft">${t("settings.in_variable")}</p><${Copyable} text=${variableOf(setting)} /><p class="small faint">${t("settings.restart")}</p></div>`;
}

// Secrets are never shown, whatever the daemon sends for them: only whether there is one.
function Value({ setting, value, isDefault = false }) {
  if (setting.secret && !isDefault) return html`<span class="value secret">${isEmpty(value) ? t("settings.empty") : t("settings.masked")}</span>`;
  if (isEmpty(value)) return html`<span class="value faint">${t("settings.empty")}</span>`;
  if (typeof value === "object" && !Array.isArray(value)) return html`<${Unfold} title=${html`<span class="value">${t("settings.entries", { n: Object.keys(value).length })}</span>`}>${() => html`<pre>${JSON.stringify(value, null, 2)}</pre>`}<//>`;
  return html`<code class="value">${shown(value)}</code>`;
}

const isEmpty = (value) => value === "" || value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0);

function shown(value) {
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) return value.map(shown).join(", ");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
}

// JSON is YAML as well.
const yaml = (value) => (typeof value === "string" && /^[A-Za-z0-9_./~-]+$/.test(value) ? value : JSON.stringify(value ?? ""));

const variableOf = (setting) => setting.variable ?? `MEMORYD_${setting.key.replaceAll(".", "_").toUpperCase()}`;
