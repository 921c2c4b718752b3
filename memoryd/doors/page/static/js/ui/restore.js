// Brings memories back from a backup, after showing what would change.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { exact, number, t } from "../i18n.js";
import { useCall } from "./state.js";
import { Answer, Busy, Button, Dialog, ErrorNotice, TypeChip, useAction } from "./widgets.js";

// `onDone` gets the answer of the restore.
export function RestoreDialog({ backup, onDone, onClose }) {
  const asked = useCall("restore_preview", { path: backup.path });
  const [mode, setMode] = useState("add");
  const [agreed, setAgreed] = useState(false);
  const action = useAction(async () => onDone(await call("restore", { path: backup.path, mode, confirm: true })));
  const preview = asked.answer;
  const ready = preview && !action.busy && (mode === "replace" ? agreed : preview.would_return > 0);
  const submit = () => ready && action.start();
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class=${`button ${mode === "replace" ? "danger" : "primary"}`} disabled=${!ready}>${action.busy ? t("doctor.restoring") : t(`doctor.do_${mode}`)}</button>`;
  return html`<${Dialog} wide title=${t("doctor.restore_title")} onClose=${onClose} onSubmit=${submit} foot=${foot}>
    <p class="soft text">${exact(backup.created_at)} · <span class="mono">${backup.name}</span></p>
    ${asked.busy && !preview && html`<${Busy} text=${t("doctor.comparing")} />`}
    ${(preview || asked.error) && html`<${Answer} of=${asked}>${(found) => html`<${Counts} found=${found} />
      <${Modes} found=${found} mode=${mode} onChange=${setMode} />
      ${mode === "replace" && html`<label class="check agree"><input type="checkbox" checked=${agreed} onChange=${(event) => setAgreed(event.target.checked)} /><span>${t("doctor.agree", { n: found.would_be_lost })}</span></label>`}
      <${Some} title=${t("doctor.first_returned")} memories=${found.first_returned} total=${found.would_return} />
      ${mode === "replace" && html`<${Some} title=${t("doctor.first_lost")} memories=${found.first_lost} total=${found.would_be_lost} />`}`}<//>`}
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

function Counts({ found }) {
  const counts = [["would_return", found.would_return], ["would_be_lost", found.would_be_lost], ["differ", found.differ], ["same", found.same]];
  return html`<div class="counts">${counts.map(([name, n]) => html`<div key=${name}><strong class="number">${number(n)}</strong><span>${t(`doctor.${name}`)}</span></div>`)}</div>
    <p class="small soft">${t("doctor.compare", { then: number(found.memories), now: number(found.now.memories) })}</p>`;
}

function Some({ title, memories, total }) {
  if (!memories.length) return null;
  return html`<details class="some" open=${memories.length <= 5}><summary>${title} <span class="badge">${number(total)}</span></summary><ul>${memories.map((memory, place) => html`<li key=${memory.id ?? place}><${TypeChip} type=${memory.type} /><span class="grow cut" title=${memory.text}>${memory.text}</span></li>`)}${total > memories.length && html`<li class="faint">${t("doctor.and_more", { n: total - memories.length })}</li>`}</ul></details>`;
}

function Modes({ found, mode, onChange }) {
  return html`<fieldset class="modes"><legend>${t("doctor.how")}</legend>${["add", "replace"].map((name) => html`<label key=${name} class=${`mode ${name === mode ? "chosen" : ""}`}><input type="radio" name="mode" value=${name} checked=${name === mode} onChange=${() => onChange(name)} /><span><strong>${t(`doctor.mode_${name}`)}</strong><span class="small soft">${t(`doctor.mode_${name}_lead`, { n: name === "add" ? found.would_return : found.memories })}</span></span></label>`)}</fieldset>`;
}
