// The dialog that changes one memory: its text, and everything that a person may set.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { t } from "../i18n.js";
import { tagsOf } from "./bulk.js";
import { toast, useCall } from "./state.js";
import { Button, Dialog, ErrorNotice, Field, Select, useAction } from "./widgets.js";

const TYPES = ["fact", "conversation", "context"];
const OWN = ["kind", "project", "tags"]; // metadata with a field of its own

export function EditDialog({ memory, onClose, onDone }) {
  const known = useCall("filters");
  const [now, setNow] = useState(() => fieldsOf(memory));
  const set = (key) => (event) => setNow({ ...now, [key]: event.target ? event.target.value : event });
  const action = useAction(async () => {
    const answer = await call("update_memory", changesOf(memory, now));
    toast(answer.changed ? t("edit.saved") : t("edit.unchanged"));
    onDone(answer);
  });
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${action.busy || !now.content.trim()}>${t("common.save")}</button>`;
  return html`<${Dialog} title=${t("edit.title")} wide=${true} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <${Field} label=${t("edit.content")}><textarea class="area" rows="8" value=${now.content} onInput=${set("content")} /><//>
    <div class="grid">
      <${Field} label=${t("browse.type")} hint=${t("edit.type_hint")}><${Select} value=${now.type} onChange=${set("type")} choices=${TYPES.map((type) => [type, t(`types.${type}`)])} /><//>
      <${Field} label=${t("edit.name")}><input class="input" value=${now.name} onInput=${set("name")} /><//>
      <${Field} label=${t("browse.kind")}><input class="input" list="edit-kinds" value=${now.kind} onInput=${set("kind")} /><//>
      <${Field} label=${t("browse.project")}><input class="input" list="edit-projects" value=${now.project} onInput=${set("project")} /><//>
      <${Field} label=${t("edit.tags")} hint=${t("bulk.tags_hint")}><input class="input" value=${now.tags} onInput=${set("tags")} /><//>
      <${Field} label=${t("edit.expires")} hint=${t("edit.expires_hint")}><input class="input" type="datetime-local" value=${now.expires} onInput=${set("expires")} /><//>
    </div>
    <label class="check"><input type="checkbox" checked=${now.pinned} onChange=${(event) => setNow({ ...now, pinned: event.target.checked })} />${t("edit.pinned")}</label>
    <${Options} id="edit-kinds" counts=${known.answer?.kinds} /><${Options} id="edit-projects" counts=${known.answer?.projects} />
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

export function Options({ id, counts = [] }) {
  return html`<datalist id=${id}>${counts.filter(({ value }) => value !== null).map(({ value }) => html`<option key=${value} value=${value} />`)}</datalist>`;
}

function fieldsOf(memory) {
  const { kind = "", project = "", tags = [] } = memory.metadata;
  const list = Array.isArray(tags) ? tags : [tags];
  return { content: memory.content, type: memory.type, name: memory.name ?? "", kind, project, tags: list.join(", "), expires: localInput(memory.expires_at), pinned: Boolean(memory.pinned) };
}

// A time as the browser's own field for times has it: local, to the minute.
function localInput(time) {
  if (!time) return "";
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

// Only what differs is sent: two people who change different things do not undo each other's.
function changesOf(memory, now) {
  const before = fieldsOf(memory);
  const differs = (key) => now[key] !== before[key];
  const args = { memory_id: memory.id };
  if (differs("content")) args.content = now.content;
  if (differs("type")) args.memory_type = now.type;
  if (differs("pinned")) args.pinned = now.pinned;
  const clear = [];
  if (differs("name")) now.name.trim() ? (args.name = now.name.trim()) : clear.push("name");
  if (differs("expires")) now.expires ? (args.expires_at = new Date(now.expires).toISOString()) : clear.push("expires_at");
  if (clear.length) args.clear = clear;
  const changed = OWN.filter(differs);
  if (changed.length) args.metadata = Object.fromEntries(changed.map((key) => [key, metadataValue(key, now[key])]));
  return args;
}

// null removes a key.
function metadataValue(key, text) {
  if (key === "tags") return tagsOf(text).length ? tagsOf(text) : null;
  return text.trim() || null;
}
