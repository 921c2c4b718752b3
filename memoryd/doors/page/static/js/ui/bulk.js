// What can be done with several chosen memories: forget, tag, pin, change, move, export. Each shows
// first what would happen.

import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { number, t } from "../i18n.js";
import { forgetSoon } from "./memory.js";
import { toast, useCall } from "./state.js";
import { Answer, Button, Chip, Dialog, ErrorNotice, Field, Select, download, useAction } from "./widgets.js";

const DIALOGS = { forget: ForgetDialog, tag: TagDialog, change: ChangeDialog, export: ExportDialog };
const FORMATS = ["jsonl", "json", "md", "claude-md"];
const MOST = 1000; // ids of one call

// A bar with the actions; `onDone` runs after one of them, `onClear` empties the selection.
export function BulkBar({ ids, onDone, onClear }) {
  const [shown, setShown] = useState("");
  const Shown = DIALOGS[shown];
  const close = () => setShown("");
  const done = () => {
    close();
    onDone();
  };
  if (!ids.length) return null;
  return html`<div class="bulk" role="region" aria-label=${t("bulk.label")}>
    <strong class="number">${t("bulk.chosen", { n: ids.length })}</strong>
    <${Button} icon="trash" kind="danger" onClick=${() => setShown("forget")}>${t("bulk.forget")}<//>
    <${Button} icon="tag" onClick=${() => setShown("tag")}>${t("bulk.tag")}<//>
    <${Button} icon="edit" onClick=${() => setShown("change")}>${t("bulk.change")}<//>
    <${Button} icon="download" onClick=${() => setShown("export")}>${t("bulk.export")}<//>
    <${Button} kind="quiet" onClick=${onClear}>${t("bulk.clear")}<//>
    ${Shown && html`<${Shown} ids=${ids} onClose=${close} onDone=${done} />`}
  </div>`;
}

// Runs one call for each thousand ids, and adds up the counts of the answers.
async function inParts(tool, ids, args) {
  const sums = { types: {} };
  for (let from = 0; from < ids.length; from += MOST) {
    const answer = await call(tool, { memory_ids: ids.slice(from, from + MOST), ...args });
    addUp(sums, answer);
    addUp(sums.types, answer.types ?? {});
  }
  return sums;
}

function addUp(sums, counts) {
  for (const [key, value] of Object.entries(counts)) if (typeof value === "number") sums[key] = (sums[key] ?? 0) + value;
}

// What forgetting them would do; of a large selection, in several calls.
function usePreview(ids) {
  const [found, setFound] = useState({ answer: null, error: null });
  const reload = () => {
    setFound({ answer: null, error: null });
    inParts("forget_by_ids", ids, { dry_run: true }).then((answer) => setFound({ answer, error: null }), (error) => setFound({ answer: null, error }));
  };
  useEffect(reload, []);
  return { ...found, reload };
}

export function ForgetDialog({ ids, onClose, onDone }) {
  const preview = usePreview(ids);
  const submit = () => {
    forgetSoon(ids);
    onDone();
  };
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button danger" disabled=${!preview.answer}>${t("bulk.forget_now", { n: ids.length })}</button>`;
  return html`<${Dialog} title=${t("bulk.forget_title")} onClose=${onClose} onSubmit=${submit} foot=${foot}>
    <${Answer} of=${preview}>${(found) => html`<div class="row">${Object.entries(found.types).map(([type, count]) => html`<${Chip} key=${type} kind=${type}>${number(count)} × ${t(`types.${type}`)}<//>`)}</div>${found.missing > 0 && html`<p class="soft">${t("bulk.missing", { n: found.missing })}</p>`}`}<//>
    <p class="soft">${t("bulk.forget_note")}</p>
  <//>`;
}

export function TagDialog({ ids, onClose, onDone }) {
  const [add, setAdd] = useState("");
  const [remove, setRemove] = useState("");
  const action = useAction(async () => {
    const done = await inParts("tag_memories", ids, { add: tagsOf(add), remove: tagsOf(remove) });
    toast(t("bulk.changed", { n: done.changed }));
    onDone();
  });
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${action.busy || !(add + remove).trim()}>${t("common.save")}</button>`;
  return html`<${Dialog} title=${t("bulk.tag_title", { n: ids.length })} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <${Field} label=${t("bulk.add_tags")} hint=${t("bulk.tags_hint")}><input class="input" value=${add} onInput=${(event) => setAdd(event.target.value)} /><//>
    <${Field} label=${t("bulk.remove_tags")}><input class="input" value=${remove} onInput=${(event) => setRemove(event.target.value)} /><//>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

export const tagsOf = (text) => text.split(/[,\n]/).map((tag) => tag.trim().replace(/^#/, "")).filter(Boolean);

function ChangeDialog({ ids, onClose, onDone }) {
  const known = useCall("filters");
  const [change, setChange] = useState({});
  const set = (key) => (value) => setChange({ ...change, [key]: value });
  const args = changeArguments(change);
  const action = useAction(async () => {
    const done = await inParts("set_memories", ids, args);
    toast(t("bulk.changed", { n: done.changed }));
    onDone();
  });
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${action.busy || !Object.keys(args).length}>${t("common.save")}</button>`;
  const keep = ["", t("bulk.keep")];
  return html`<${Dialog} title=${t("bulk.change_title", { n: ids.length })} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <div class="grid">
      <${Field} label=${t("browse.type")}><${Select} value=${change.type ?? ""} onChange=${set("type")} choices=${[keep, ...["fact", "conversation", "context"].map((type) => [type, t(`types.${type}`)])]} /><//>
      <${Field} label=${t("memory.pinned")}><${Select} value=${change.pinned ?? ""} onChange=${set("pinned")} choices=${[keep, ["yes", t("bulk.pin")], ["no", t("bulk.unpin")]]} /><//>
      <${Field} label=${t("browse.kind")}><${Select} value=${change.kind ?? ""} onChange=${set("kind")} choices=${[keep, ["-", t("common.none")], ...named(known.answer?.kinds)]} /><//>
      <${Field} label=${t("browse.project")} hint=${t("bulk.project_hint")}><input class="input" list="bulk-projects" value=${change.project ?? ""} onInput=${(event) => set("project")(event.target.value)} /><//>
      <datalist id="bulk-projects">${named(known.answer?.projects).map(([value]) => html`<option key=${value} value=${value} />`)}</datalist>
    </div>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

const named = (counts = []) => counts.filter(({ value }) => value !== null).map(({ value }) => [value, value]);

// "-" stands for none, as the hints say.
function changeArguments({ type, pinned, kind, project }) {
  const args = {};
  if (type) args.memory_type = type;
  if (pinned) args.pinned = pinned === "yes";
  const values = { kind, project: project?.trim() };
  const cleared = Object.keys(values).filter((key) => values[key] === "-");
  for (const [key, value] of Object.entries(values)) if (value && value !== "-") args[key] = value;
  if (cleared.length) args.clear = cleared;
  return args;
}

export function ExportDialog({ ids, onClose, onDone }) {
  const [format, setFormat] = useState(FORMATS[0]);
  const action = useAction(async () => {
    const made = await call("export_selection", { memory_ids: ids.slice(0, MOST), format });
    download(made.file_name, made.text, made.media_type);
    toast(t("bulk.exported", { n: made.memories }));
    onDone();
  });
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${action.busy || ids.length > MOST}>${t("bulk.export")}</button>`;
  return html`<${Dialog} title=${t("bulk.export_title", { n: ids.length })} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <${Field} label=${t("bulk.format")}><${Select} value=${format} onChange=${setFormat} choices=${FORMATS.map((name) => [name, t(`bulk.format_${name}`)])} /><//>
    ${ids.length > MOST && html`<p class="soft">${t("bulk.export_most", { n: MOST })}</p>`}
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}
