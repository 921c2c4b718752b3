// The backups: their list, making one, and bringing memories back from one.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { bytes, number, t } from "../i18n.js";
import { RestoreDialog } from "./restore.js";
import { toast, useCall } from "./state.js";
import { Answer, Button, Chip, Empty, ErrorNotice, Notice, When, useAction } from "./widgets.js";

const SHOWN = 10;

// `onChange` runs after a backup was made or restored.
export function Backups({ onChange }) {
  const asked = useCall("backups");
  const [chosen, setChosen] = useState(null);
  const [restored, setRestored] = useState(null);
  const changed = () => {
    asked.reload();
    onChange?.();
  };
  const making = useAction(async () => {
    const made = await call("backup");
    toast(t("doctor.backup_made", { n: made.memories, size: bytes(made.bytes) }));
    changed();
  });
  const done = (answer) => {
    setChosen(null);
    setRestored(answer);
    changed();
  };
  return html`<section class="card stack backups" aria-labelledby="backups-title">
    <div class="spread"><h2 id="backups-title">${t("doctor.backups")}</h2><${Button} kind="primary" icon="backups" onClick=${making.start} disabled=${making.busy}>${making.busy ? t("doctor.backing_up") : t("doctor.backup_now")}<//></div>
    ${making.error && html`<${ErrorNotice} error=${making.error} />`}
    ${restored && html`<${Restored} answer=${restored} />`}
    <${Answer} of=${asked}>${(found) => html`<p class="soft small">${rhythm(found)} <span class="text mono">${found.folder}</span></p><${List} backups=${found.backups} onRestore=${setChosen} />`}<//>
    ${chosen && html`<${RestoreDialog} backup=${chosen} onDone=${done} onClose=${() => setChosen(null)} />`}
  </section>`;
}

function rhythm({ every_hours: hours, keep }) {
  return hours > 0 ? t("doctor.every", { n: hours, keep }) : t("doctor.every_never");
}

function Restored({ answer }) {
  const counts = t(`doctor.restored_${answer.mode}`, { added: answer.added, replaced: answer.replaced, kept: answer.kept, memories: answer.memories });
  const safety = answer.safety_backup && html`<span class="hint text">${t("doctor.safety", { path: answer.safety_backup })}</span>`;
  const refused = answer.refused > 0 && html`<span class="hint">${t("doctor.refused", { n: answer.refused })}</span>`;
  return html`<${Notice} kind="good" icon="check">${counts}${safety}${refused}<//>`;
}

function List({ backups, onRestore }) {
  const [shown, setShown] = useState(SHOWN);
  if (!backups.length) return html`<${Empty} icon="backups" title=${t("doctor.no_backups")}>${t("doctor.no_backups_lead")}<//>`;
  return html`<div class="table-box"><table class="table backup-table"><thead><tr><th scope="col">${t("doctor.made")}</th><th scope="col" class="number">${t("doctor.memories")}</th><th scope="col" class="number">${t("doctor.size")}</th><th scope="col">${t("doctor.model")}</th><th scope="col">${t("doctor.state")}</th><th><span class="hidden-text">${t("doctor.actions")}</span></th></tr></thead>
    <tbody>${backups.slice(0, shown).map((backup) => html`<${Row} key=${backup.path} backup=${backup} onRestore=${onRestore} />`)}</tbody></table></div>
    ${shown < backups.length && html`<div><${Button} onClick=${() => setShown(shown + 50)}>${t("common.more")}<//></div>`}`;
}

function Row({ backup, onRestore }) {
  return html`<tr><td class="made"><strong><${When} time=${backup.created_at} /></strong><div class="small faint text">${backup.name}</div></td>
    <td class="number" data-label=${t("doctor.memories")}>${backup.memories === null ? "–" : number(backup.memories)}</td>
    <td class="number" data-label=${t("doctor.size")}>${bytes(backup.bytes)}</td>
    <td data-label=${t("doctor.model")}>${backup.model ?? "–"}</td>
    <td data-label=${t("doctor.state")}>${backup.verified ? html`<${Chip} kind="good">${t("doctor.readable")}<//>` : html`<${Chip} kind="danger">${t("doctor.unreadable")}<//>`}</td>
    <td class="act"><${Button} kind="small" icon="undo" aria-label=${t("doctor.restore_from", { name: backup.name })} onClick=${() => onRestore(backup)}>${t("doctor.restore")}<//></td></tr>`;
}
