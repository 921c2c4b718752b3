// The working memory of an identity, section by section.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { t } from "../i18n.js";
import { Warnings } from "./memory.js";
import { toast, useCall, useReloadOnChange } from "./state.js";
import { Answer, Button, Confirm, Dialog, Empty, ErrorNotice, Field, Notice, Select, useAction, When } from "./widgets.js";

const PREFIX = "working-memory:"; // of the names under which they are kept
const NOTHING = " "; // an empty text would count as not given

export function WorkingMemory({ identity, onChoose }) {
  const found = useCall("working_memory", { identity });
  const [editing, setEditing] = useState(null); // {title, text, isNew, whole}
  const [removing, setRemoving] = useState(null);
  const [warnings, setWarnings] = useState([]);
  useReloadOnChange(found.reload);
  const finish = (answer) => {
    setEditing(null);
    setRemoving(null);
    setWarnings(answer.warnings);
    toast(t("sessions.memory_saved"));
    found.reload();
  };
  return html`<${Answer} of=${found}>${(answer) => html`
    <div class="spread">
      <div class="row"><${Identities} value=${identity} onChoose=${onChoose} />${answer.updated_at && html`<span class="small faint">${t("sessions.changed")} <${When} time=${answer.updated_at} /></span>`}</div>
      <div class="row"><${Button} icon="teach" onClick=${() => setEditing({ title: "", text: "", isNew: true })}>${t("sessions.add_section")}<//><${Button} icon="edit" onClick=${() => setEditing({ text: answer.content, whole: true })}>${t("sessions.edit_all")}<//></div>
    </div>
    <${Warnings} warnings=${warnings} />
    ${answer.content ? html`<div class="sections">${Object.entries(answer.sections).map(([title, text]) => html`<${Section} key=${title} title=${title} text=${text} onEdit=${() => setEditing({ title, text })} onRemove=${() => setRemoving({ title, text })} />`)}</div>` : html`<div class="card"><${Empty} icon="notes" title=${t("sessions.memory_empty", { identity })}>${t("sessions.memory_empty_hint")}<//></div>`}
    ${editing && html`<${Edit} identity=${identity} now=${answer} given=${editing} onClose=${() => setEditing(null)} onDone=${finish} />`}
    ${removing && html`<${Remove} identity=${identity} now=${answer} section=${removing} onClose=${() => setRemoving(null)} onDone=${finish} />`}
  `}<//>`;
}

// Whose: those that have one, those of the sessions, and any other by its name.
function Identities({ value, onChoose }) {
  const [asking, setAsking] = useState(false);
  const kept = useCall("list_memories", { metadata: { kind: "working_memory" }, limit: 200 });
  const sessions = useCall("list_sessions", { limit: 200 });
  const named = (kept.answer?.memories ?? []).map((one) => one.name ?? "").filter((name) => name.startsWith(PREFIX)).map((name) => name.slice(PREFIX.length));
  const used = (sessions.answer?.sessions ?? []).map((one) => one.identity).filter(Boolean);
  const all = [...new Set(["default", ...named, ...used, value])].sort();
  const choose = (name) => (name === "" ? setAsking(true) : onChoose(name));
  return html`<span class="label-before">${t("sessions.identity")}</span><${Select} key=${`${value} ${asking}`} label=${t("sessions.identity")} value=${value} choices=${[...all.map((name) => [name, name]), ["", t("sessions.other_identity")]]} onChange=${choose} />
    ${asking && html`<${AskIdentity} onClose=${() => setAsking(false)} onDone=${(name) => { setAsking(false); onChoose(name); }} />`}`;
}

function AskIdentity({ onClose, onDone }) {
  const [name, setName] = useState("");
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${!name.trim()}>${t("sessions.show_it")}</button>`;
  return html`<${Dialog} title=${t("sessions.other_identity_title")} onClose=${onClose} onSubmit=${() => onDone(name.trim())} foot=${foot}><${Field} label=${t("sessions.identity")}><input class="input" maxlength="100" value=${name} onInput=${(event) => setName(event.target.value)} /><//><//>`;
}

function Section({ title, text, onEdit, onRemove }) {
  const name = title || t("sessions.beginning");
  return html`<section class="card memory-section"><div class="spread"><h2 class=${title ? "" : "soft"}>${name}</h2><div class="row tight"><${Button} kind="quiet" icon="edit" label=${t("sessions.edit_section", { title: name })} onClick=${onEdit} /><${Button} kind="quiet" icon="trash" label=${t("sessions.remove_section", { title: name })} onClick=${onRemove} /></div></div><div class="text">${text}</div></section>`;
}

// Writes one section, or the whole text. What stands before the first heading has no title, so it is
// written with the whole, and only if nobody else has changed it meanwhile.
async function write(identity, before, title, text) {
  if (title) return call("working_memory", { identity, section: title, content: text.trim() ? text : NOTHING });
  const now = await call("working_memory", { identity });
  if (now.content !== before.content) throw Object.assign(new Error(t("sessions.changed_meanwhile")), { hint: t("sessions.changed_meanwhile_hint") });
  return call("working_memory", { identity, content: text.trim() ? text : NOTHING });
}

function withBeginning(sections, text) {
  const rest = Object.entries(sections).filter(([title]) => title).map(([title, one]) => `## ${title}\n${one}`);
  return [text.trim(), ...rest].filter(Boolean).join("\n\n");
}

function Edit({ identity, now, given, onClose, onDone }) {
  const [before] = useState(now); // what is edited, whatever an agent writes meanwhile
  const [title, setTitle] = useState(given.title ?? "");
  const [text, setText] = useState(given.text);
  const action = useAction(async () => {
    const whole = given.whole ? text : withBeginning(before.sections, text);
    const named = given.isNew || given.title;
    onDone(await write(identity, before, named ? title.trim() : "", named ? text : whole));
  });
  const incomplete = given.isNew && (!title.trim() || !text.trim());
  const heading = given.whole ? t("sessions.edit_all_title") : given.isNew ? t("sessions.add_section") : title || t("sessions.beginning");
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${action.busy || incomplete}>${t("common.save")}</button>`;
  return html`<${Dialog} wide title=${heading} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    ${given.isNew && html`<${Field} label=${t("sessions.section_title")}><input class="input" maxlength="200" value=${title} onInput=${(event) => setTitle(event.target.value)} /><//>`}
    <${Field} label=${t("sessions.section_text")} hint=${given.whole ? t("sessions.whole_hint") : null}><textarea class="area tall" value=${text} onInput=${(event) => setText(event.target.value)} /><//>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

function Remove({ identity, now, section, onClose, onDone }) {
  const [before] = useState(now);
  const action = useAction(async () => {
    const rest = section.title ? "" : withBeginning(before.sections, "");
    onDone(await write(identity, before, section.title, rest));
  });
  return html`<${Confirm} title=${t("sessions.remove_title")} action=${t("sessions.remove")} busy=${action.busy} onConfirm=${action.start} onClose=${onClose}>
    <p>${t("sessions.remove_what", { title: section.title || t("sessions.beginning"), identity })}</p>
    <${Notice} icon="trash"><div class="text preview-text">${section.text}</div><//>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}
