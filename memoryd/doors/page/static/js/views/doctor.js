// What is wrong and how it is repaired, and the backups.

import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { hasText, t } from "../i18n.js";
import { Backups } from "../ui/backups.js";
import { Copyable } from "../ui/copy.js";
import { Icon } from "../ui/icons.js";
import { toast, useCall } from "../ui/state.js";
import { Answer, Button, Chip, Confirm, ErrorNotice, Head, useAction } from "../ui/widgets.js";

export default function Doctor({ place }) {
  const asked = useCall("doctor");
  const backups = useRef(null);
  useEffect(() => {
    if (place.argument === "backups" && asked.answer) backups.current?.scrollIntoView();
  }, [place.argument, Boolean(asked.answer)]);
  return html`<${Head} title=${t("doctor.title")} lead=${t("doctor.lead")}><${Button} icon="again" onClick=${asked.reload} disabled=${asked.busy}>${asked.busy ? t("doctor.checking") : t("doctor.again")}<//><//>
    <section class="stack" aria-label=${t("doctor.findings")}><${Answer} of=${asked}>${(found) => html`<${Findings} found=${found} onRepaired=${asked.reload} />`}<//></section>
    <div ref=${backups} class="anchor"><${Backups} onChange=${asked.reload} /></div>`;
}

function Findings({ found, onRepaired }) {
  return html`${found.healthy && html`<div class="card all-well"><${Icon} name="check" /><div><h2>${t("doctor.healthy")}</h2><p class="soft">${t("doctor.healthy_lead")}</p></div></div>`}
    ${found.findings.length > 0 && html`<ul class="stack tight">${found.findings.map((finding, place) => html`<${Finding} key=${`${finding.code} ${place}`} finding=${finding} onRepaired=${onRepaired} />`)}</ul>`}`;
}

const CHIPS = { error: "danger", warning: "warning", note: "" };

function Finding({ finding, onRepaired }) {
  const [asking, setAsking] = useState(false);
  return html`<li class=${`card finding ${finding.severity}`}>
    <div class="row"><${Chip} kind=${CHIPS[finding.severity]}>${t(`doctor.${finding.severity}`)}<//><code class="faint">${finding.code}</code></div>
    <p class="sentence">${finding.sentence}</p>
    ${finding.repair && html`<div class="row top repair"><span class="soft">${t("doctor.what_to_do")}</span><${Repair} text=${finding.repair} /></div>`}
    ${finding.can_repair && html`<div><${Button} kind="primary" icon="doctor" onClick=${() => setAsking(true)}>${t("doctor.repair")}<//></div>`}
    ${asking && html`<${RepairDialog} finding=${finding} onRepaired=${onRepaired} onClose=${() => setAsking(false)} />`}
  </li>`;
}

// A command can be copied; a sentence is read.
function Repair({ text }) {
  const command = text.match(/^Run: ([^,;]+)$/)?.[1];
  return command ? html`<${Copyable} text=${command} />` : html`<span class="grow text">${text}</span>`;
}

const DELETING = new Set(["clock_doubted"]); // repairs that delete what has expired

// What a repair will do. `expired`: memories that it deletes, if it deletes any.
function effectOf(code, expired) {
  const key = `doctor.effect.${code}`;
  if (!hasText(key)) return t("doctor.repair_lead");
  return DELETING.has(code) && expired === undefined ? t("common.loading") : t(key, { n: expired });
}

function RepairDialog({ finding, onRepaired, onClose }) {
  const action = useAction(async () => {
    const done = await call("doctor_repair", { code: finding.code });
    const remains = done.findings.some((one) => one.code === finding.code);
    toast(remains ? t("doctor.remains") : t("doctor.repaired", { n: done.repaired }));
    onClose();
    onRepaired();
  });
  const isDeleting = DELETING.has(finding.code);
  const expired = useCall(isDeleting ? "overview" : null);
  return html`<${Confirm} title=${t("doctor.repair_title")} action=${action.busy ? t("doctor.repairing") : t("doctor.repair")} danger=${isDeleting} busy=${action.busy || (isDeleting && !expired.answer)} onConfirm=${action.start} onClose=${onClose}>
    <p>${finding.sentence}</p>${finding.repair && html`<div class="soft"><${Repair} text=${finding.repair} /></div>`}<p class=${isDeleting ? "notice warning" : ""}>${effectOf(finding.code, expired.answer?.totals.expired_waiting)}</p>
    ${(action.error ?? expired.error) && html`<${ErrorNotice} error=${action.error ?? expired.error} />`}
  <//>`;
}
