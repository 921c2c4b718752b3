// One memory: its text, where it came from, how it is trusted, what it is connected with, and what can
// be done with it.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { exact, number, percent, t } from "../i18n.js";
import { address, go } from "../router.js";
import { EditDialog } from "../ui/edit.js";
import { ShortMemory, forgetSoon } from "../ui/memory.js";
import { toast, useCall, useReloadOnChange } from "../ui/state.js";
import { Answer, Button, Chip, ErrorNotice, Facts, Head, Meter, Notice, TypeChip, When, useAction } from "../ui/widgets.js";

// Metadata that is shown in a place of its own.
const SHOWN = new Set(["kind", "project", "tags", "source", "tool", "tools_used", "role", "speaker", "needs_review", "review_reason", "confidence", "related_files", "order", "citation"]);

export default function Memory({ place }) {
  const found = useCall("memory_detail", { memory_id: place.argument });
  useReloadOnChange(found.reload);
  return html`<${Answer} of=${found}>${(detail) => html`<${Detail} key=${detail.memory.id} detail=${detail} reload=${found.reload} />`}<//>`;
}

function Detail({ detail, reload }) {
  const { memory } = detail;
  const { kind, project, tags = [] } = memory.metadata;
  return html`
    <${Head} title=${memory.name ?? t("memory.title")}><${Actions} memory=${memory} review=${detail.review} reload=${reload} /><//>
    ${detail.review.needs_review && html`<${ReviewNotice} memory=${memory} review=${detail.review} reload=${reload} />`}
    <div class="detail">
      <div class="stack">
        <section class="card stack tight">
          <p class="text content-text">${memory.content}</p>
          <div class="row"><${TypeChip} type=${memory.type} />${memory.pinned && html`<${Chip} kind="good">${t("memory.pinned")}<//>`}${kind && html`<${Chip}>${kind}<//>`}${project && html`<a href=${address("browse", "", { project })}>${project}</a>`}${listOf(tags).map((tag) => html`<a key=${tag} href=${address("browse", "", { tag })}>#${tag}</a>`)}</div>
        </section>
        <${Chain} chain=${detail.chain} />
        <${Relations} relations=${detail.relations} />
        <${Shorts} title=${t("memory.neighbours")} list=${detail.neighbours} />
        <${Shorts} title=${t("memory.nearest")} list=${detail.nearest ?? []} extra=${(one) => html`<${Meter} share=${one.score} label=${t("memory.score", { score: number(one.score, 2) })} />`} />
        <${Shorts} title=${t("memory.archives")} list=${detail.archives} />
        <${Pushes} pushes=${detail.pushes} />
      </div>
      <div class="stack"><${Times} detail=${detail} /><${Trust} detail=${detail} /><${Origin} detail=${detail} /><${Metadata} metadata=${memory.metadata} /></div>
    </div>`;
}

const listOf = (value) => (Array.isArray(value) ? value : [value]).filter(Boolean);

function Actions({ memory, reload }) {
  const [editing, setEditing] = useState(false);
  const pin = useAction(async () => {
    await call("update_memory", { memory_id: memory.id, pinned: !memory.pinned });
    reload();
  });
  const forget = () => {
    forgetSoon([memory.id]);
    go(address("browse"));
  };
  return html`
    <${Button} icon="edit" onClick=${() => setEditing(true)}>${t("memory.edit")}<//>
    <${Button} icon="pin" aria-pressed=${String(Boolean(memory.pinned))} disabled=${pin.busy} onClick=${pin.start}>${t(memory.pinned ? "memory.unpin" : "memory.pin")}<//>
    <${Button} icon="trash" kind="danger" onClick=${forget}>${t("memory.forget")}<//>
    ${pin.error && html`<${ErrorNotice} error=${pin.error} />`}
    ${editing && html`<${EditDialog} memory=${memory} onClose=${() => setEditing(false)} onDone=${() => { setEditing(false); reload(); }} />`}`;
}

function ReviewNotice({ memory, review, reload }) {
  const confirm = useAction(async () => {
    await call("review_memory", { memory_id: memory.id, action: "confirm" });
    toast(t("memory.confirmed"));
    reload();
  });
  return html`<${Notice} kind="warning" icon="review">${t("memory.review_wanted")} ${review.reason ?? ""}<div class="row"><${Button} kind="small" disabled=${confirm.busy} onClick=${confirm.start}>${t("memory.confirm")}<//><a class="button small" href=${address("review")}>${t("memory.go_review")}</a></div>${confirm.error && html`<${ErrorNotice} error=${confirm.error} />`}<//>`;
}

function Times({ detail: { memory, expiry, uses } }) {
  const time = (at) => at && html`<${When} time=${at} /> <span class="small faint">${exact(at)}</span>`;
  return html`<section class="card"><h2>${t("memory.times")}</h2><${Facts} rows=${[
    [t("memory.created"), time(memory.created_at)],
    [t("memory.updated"), time(memory.updated_at)],
    [t("memory.expiry"), expiry.expires_at ? time(expiry.expires_at) : t("memory.kept")],
    [t("memory.uses"), uses.count ? html`${number(uses.count)}${uses.last && html` · <${When} time=${uses.last} />`}` : t("memory.never_used")],
  ]} /></section>`;
}

function Trust({ detail: { confidence, review, files } }) {
  return html`<section class="card"><h2>${t("memory.trust")}</h2><${Facts} rows=${[
    [t("memory.confidence"), html`${percent(confidence.now)}${confidence.deprecated ? html` <${Chip} kind="warning">${t("memory.deprecated")}<//>` : ""}<p class="small faint">${confidence.sentence}</p>`],
    [t("memory.verified"), review.user_verified ? html`${t("memory.by_you")} ${review.confirmed_at && html`<${When} time=${review.confirmed_at} />`}` : null],
    [t("memory.files"), files.length ? files.map((one) => html`<div key=${one.file}><code>${one.file}</code> ${one.stale && html`<${Chip} kind="warning">${t("memory.stale")}<//>`}</div>`) : null],
  ]} /></section>`;
}

function Origin({ detail: { provenance: from, note } }) {
  const session = from.session_id && html`<a href=${address("sessions", from.session_id)}>${from.session_title ?? from.session_id}</a>`;
  const rows = [
    [t("browse.source"), from.source],
    [t("memory.said_by"), from.speaker ?? from.role],
    [t("memory.tool"), from.tool ?? (from.tools_used.length ? from.tools_used.join(", ") : null)],
    [t("browse.session"), session],
    [t("browse.project"), from.project && html`<a href=${address("browse", "", { project: from.project })}>${from.project}</a>`],
    [t("memory.note"), note && html`<a href=${address("notes", note.name)}>${note.name}</a>${note.aliases.length ? ` (${note.aliases.join(", ")})` : ""}`],
    [t("memory.commit"), from.commit_sha && html`<code>${from.commit_sha}</code>`],
    [t("memory.original"), from.original_id && html`<code>${from.original_id}</code>`],
  ];
  if (!rows.some(([, value]) => value)) return null;
  return html`<section class="card"><h2>${t("memory.origin")}</h2><${Facts} rows=${rows} /></section>`;
}

function Metadata({ metadata }) {
  const rows = Object.entries(metadata).filter(([key]) => !SHOWN.has(key));
  if (!rows.length) return null;
  return html`<section class="card"><h2>${t("memory.metadata")}</h2><${Facts} rows=${rows.map(([key, value]) => [key, html`<code>${typeof value === "string" ? value : JSON.stringify(value)}</code>`])} /></section>`;
}

function Chain({ chain }) {
  if (!chain.length) return null;
  return html`<section class="card"><h2>${t("memory.chain")}</h2><p class="soft small">${t("memory.chain_hint")}</p><ol>${chain.map((one) => html`<${ShortMemory} key=${one.id} memory=${one}>${one.is_this && html`<${Chip} kind="outline">${t("memory.this")}<//>`}<//>`)}</ol></section>`;
}

function Relations({ relations }) {
  if (!relations.length) return null;
  return html`<section class="card"><h2>${t("memory.relations")}</h2><ul>${relations.map((one) => html`<${ShortMemory} key=${one.relation + one.direction + one.id} memory=${one}><${Chip} kind="outline">${t(`relations.${one.relation}_${one.direction}`)}<//><//>`)}</ul></section>`;
}

function Shorts({ title, list, extra = () => null }) {
  if (!list.length) return null;
  return html`<section class="card"><h2>${title}</h2><ul>${list.map((one) => html`<${ShortMemory} key=${one.id} memory=${one}>${one.is_this ? html`<${Chip} kind="outline">${t("memory.this")}<//>` : extra(one)}<//>`)}</ul></section>`;
}

function Pushes({ pushes }) {
  if (!pushes.length) return null;
  return html`<section class="card"><h2>${t("memory.pushes")}</h2><ul>${pushes.map((push) => html`<li class="short-memory" key=${push.at}><${Chip}>${push.event}<//><span class="grow cut">${push.why}</span><a href=${address("sessions", push.session_id)}>${push.session_title ?? push.session_id}</a><span class="small faint"><${When} time=${push.at} /></span></li>`)}</ul></section>`;
}
