// One note: its text and its names.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { exact, t } from "../i18n.js";
import { address } from "../router.js";
import { Warnings } from "../ui/memory.js";
import { toast, useCall, useReloadOnChange } from "../ui/state.js";
import { Answer, Button, Chip, Confirm, Dialog, ErrorNotice, Field, Notice, Select, useAction } from "../ui/widgets.js";

export function Note({ id, onChange, onGone }) {
  const found = useCall("read_memory", { memory_id: id });
  const [dialog, setDialog] = useState(null);
  const [warnings, setWarnings] = useState([]);
  useReloadOnChange(found.reload);
  const close = () => setDialog(null);
  const finish = (answer) => {
    close();
    setWarnings(answer.warnings ?? []);
    found.reload();
    onChange();
  };
  const parts = { onClose: close, onDone: finish };
  return html`<article class="card note-card">
    <a class="button quiet back" href=${address("notes")}>← ${t("notes.title")}</a>
    <${Answer} of=${found}>${(note) => html`
      <div class="spread"><h2 class="note-name">${note.name}</h2><div class="row tight"><${Button} icon="edit" onClick=${() => setDialog("edit")}>${t("notes.edit")}<//><${Button} onClick=${() => setDialog("rename")}>${t("notes.rename")}<//><${Button} kind="danger" icon="trash" label=${t("notes.remove")} onClick=${() => setDialog("remove")} /></div></div>
      <p class="small faint">${t("notes.created", { time: exact(note.created_at) })}${note.updated_at ? `, ${t("notes.updated", { time: exact(note.updated_at) })}` : ""} · <a href=${address("memory", note.id)}>${t("notes.as_memory")}</a></p>
      <${Warnings} warnings=${warnings} />
      <${Aliases} note=${note} onDone=${finish} />
      <div class="text note-text">${note.content}</div>
      ${dialog === "edit" && html`<${EditNote} note=${note} ...${parts} />`}
      ${dialog === "rename" && html`<${RenameNote} note=${note} ...${parts} />`}
      ${dialog === "remove" && html`<${RemoveNote} note=${note} onClose=${close} onDone=${onGone} />`}
    `}<//>
  </article>`;
}

function Aliases({ note, onDone }) {
  const [alias, setAlias] = useState("");
  const aliases = note.metadata?.aliases ?? [];
  const add = useAction(async () => {
    onDone(await call("edit_notes", { action: "alias", name: note.name, alias: alias.trim() }));
    setAlias("");
  });
  const remove = useAction(async (one) => onDone(await call("edit_notes", { action: "unalias", alias: one })));
  const submit = (event) => {
    event.preventDefault();
    if (alias.trim()) add.start();
  };
  const error = add.error ?? remove.error;
  return html`<form class="aliases" onSubmit=${submit}>
    <span class="label-before">${t("notes.aliases")}</span>
    ${aliases.map((one) => html`<${Chip} key=${one} kind="outline" onRemove=${() => remove.start(one)} removeLabel=${t("notes.remove_alias", { alias: one })}>${one}<//>`)}
    <input class="input alias-input" aria-label=${t("notes.new_alias")} placeholder=${t("notes.new_alias")} maxlength="200" value=${alias} onInput=${(event) => setAlias(event.target.value)} />
    <button type="submit" class="button" disabled=${add.busy || !alias.trim()}>${t("notes.add_alias")}</button>
  </form>${error && html`<${ErrorNotice} error=${error} />`}`;
}

const Foot = ({ onClose, disabled }) => html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${disabled}>${t("common.save")}</button>`;

export function AddNote({ kind, onClose, onDone }) {
  const [name, setName] = useState("");
  const [content, setContent] = useState("");
  const [aliases, setAliases] = useState("");
  const [sort, setSort] = useState(kind);
  const action = useAction(async () => {
    const given = aliases.split(",").map((one) => one.trim()).filter(Boolean);
    const done = await call("edit_notes", { action: "add", name: name.trim(), content, kind: sort, ...(given.length ? { aliases: given } : {}) });
    toast([t("notes.added"), ...done.warnings].join(" "));
    onDone(done.note);
  });
  const foot = html`<${Foot} onClose=${onClose} disabled=${action.busy || !name.trim() || !content.trim()} />`;
  return html`<${Dialog} wide title=${t("notes.add_title")} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <${Field} label=${t("notes.name")}><input class="input" maxlength="200" value=${name} onInput=${(event) => setName(event.target.value)} /><//>
    <${Field} label=${t("notes.text")}><textarea class="area tall" value=${content} onInput=${(event) => setContent(event.target.value)} /><//>
    <${Field} label=${t("notes.aliases")} hint=${t("notes.aliases_hint")}><input class="input" value=${aliases} onInput=${(event) => setAliases(event.target.value)} /><//>
    <${Field} label=${t("notes.kind")}><${Select} label=${t("notes.kind")} value=${sort} choices=${[["note", t("notes.one_note")], ["archive", t("notes.one_archive")]]} onChange=${setSort} /><//>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

function EditNote({ note, onClose, onDone }) {
  const [content, setContent] = useState(note.content);
  const [before] = useState(note.content);
  const action = useAction(async () => onDone(await call("edit_notes", { action: "write", name: note.name, content })));
  const foot = html`<${Foot} onClose=${onClose} disabled=${action.busy || !content.trim()} />`;
  return html`<${Dialog} wide title=${note.name} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    ${note.content !== before && html`<${Notice} kind="warning" icon="warning">${t("notes.changed_meanwhile")}<//>`}
    <${Field} label=${t("notes.text")}><textarea class="area tall" value=${content} onInput=${(event) => setContent(event.target.value)} /><//>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

function RenameNote({ note, onClose, onDone }) {
  const [name, setName] = useState(note.name);
  const [keep, setKeep] = useState(true);
  const action = useAction(async () => onDone(await call("edit_notes", { action: "rename", name: note.name, new_name: name.trim(), keep_alias: keep })));
  const foot = html`<${Foot} onClose=${onClose} disabled=${action.busy || !name.trim() || name.trim() === note.name} />`;
  return html`<${Dialog} title=${t("notes.rename_title")} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <${Field} label=${t("notes.name")}><input class="input" maxlength="200" value=${name} onInput=${(event) => setName(event.target.value)} /><//>
    <label class="check"><input type="checkbox" checked=${keep} onChange=${(event) => setKeep(event.target.checked)} />${t("notes.keep_alias", { name: note.name })}</label>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

function RemoveNote({ note, onClose, onDone }) {
  const action = useAction(async () => {
    await call("edit_notes", { action: "remove", name: note.name });
    toast(t("notes.removed", { name: note.name }));
    onDone();
  });
  const aliases = note.metadata?.aliases ?? [];
  return html`<${Confirm} title=${t("notes.remove_title")} action=${t("notes.remove")} busy=${action.busy} onConfirm=${action.start} onClose=${onClose}>
    <p>${t(aliases.length ? "notes.remove_what_aliases" : "notes.remove_what", { name: note.name, aliases: aliases.join(", ") })}</p>
    <${Notice} icon="trash"><div class="text preview-text">${note.content}</div><//>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}
