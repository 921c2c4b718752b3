// One session: its conversation, and what can be done with it.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { exact, number, t } from "../i18n.js";
import { address } from "../router.js";
import { Warnings } from "../ui/memory.js";
import { toast } from "../ui/state.js";
import { Conversation, useTranscript } from "../ui/transcript.js";
import { Answer, Button, Confirm, Dialog, Empty, ErrorNotice, Facts, Field, Head, Notice, useAction } from "../ui/widgets.js";

export function Session({ id }) {
  const read = useTranscript(id);
  const [dialog, setDialog] = useState(null);
  const [done, setDone] = useState(null);
  const session = read.answer?.session;
  const close = () => setDialog(null);
  const finish = (answer) => {
    close();
    setDone(answer);
    read.reload();
  };
  return html`
    <nav class="crumbs" aria-label=${t("sessions.path")}><a href=${address("sessions")}>${t("sessions.title")}</a></nav>
    <${Head} title=${session?.title ?? id} tab=${t("sessions.title")}>${session && html`<${Actions} session=${session} onChoose=${setDialog} />`}<//>
    <${Answer} of=${read}>${() => html`
      <div class="card session-facts"><${Facts} rows=${factRows(session)} /></div>
      ${done && html`<${Done} done=${done} />`}
      ${read.items.length ? html`<${Conversation} read=${read} />` : html`<div class="card"><${Empty} icon="sessions" title=${t("sessions.no_messages")} /></div>`}
    `}<//>
    ${dialog === "rename" && html`<${Rename} session=${session} onClose=${close} onDone=${() => finish(null)} />`}
    ${dialog === "compact" && html`<${Compact} session=${session} onClose=${close} onDone=${finish} />`}
    ${dialog === "sleep" && html`<${Sleep} session=${session} onClose=${close} onDone=${finish} />`}`;
}

function Actions({ session, onChoose }) {
  const asleep = session.state === "asleep";
  return html`<${Button} icon="edit" onClick=${() => onChoose("rename")}>${t("sessions.rename")}<//><${Button} icon="backups" onClick=${() => onChoose("compact")}>${t("sessions.compact")}<//><${Button} icon="moon" disabled=${asleep} onClick=${() => onChoose("sleep")}>${t("sessions.sleep")}<//>`;
}

function factRows(session) {
  const identity = session.identity && html`<a href=${address("sessions", "", { tab: "memory", identity: session.identity })}>${session.identity}</a>`;
  return [
    [t("sessions.id"), html`<span class="mono">${session.session_id}</span>`],
    [t("sessions.identity"), identity],
    [t("sessions.project"), session.project && html`<a href=${address("browse", "", { project: session.project })}>${session.project}</a>`],
    [t("sessions.state"), session.state === "asleep" ? t("sessions.asleep_since", { time: exact(session.closed_at ?? session.last_at) }) : t("sessions.open")],
    [t("sessions.opened_at"), session.created_at && exact(session.created_at)],
    [t("sessions.last_at"), session.last_at && exact(session.last_at)],
    [t("sessions.kept"), html`${t("sessions.kept_of", { n: session.messages, turns: session.turns })}, <a href=${address("browse", "", { session: session.session_id })}>${t("sessions.as_memories")}</a>`],
    [t("sessions.archives_label"), session.archives ? number(session.archives) : null],
  ];
}

// What a compaction or a sleep has kept.
function Done({ done }) {
  const text = done.archived ? t("sessions.archived", { n: done.archived, name: done.archive_name }) : t("sessions.nothing_to_archive");
  return html`<${Notice} kind="good" icon="check">${text}${done.facts?.length > 0 && html`<ul class="kept-facts">${done.facts.map((fact) => html`<li key=${fact.id}><a href=${address("memory", fact.id)}>${fact.content}</a> <span class="small">${t(`sessions.how_${fact.how}`)}</span></li>`)}</ul>`}<//><${Warnings} warnings=${done.warnings} />`;
}

function Rename({ session, onClose, onDone }) {
  const [title, setTitle] = useState(session.title ?? "");
  const action = useAction(async () => {
    await call("rename_session", { session_id: session.session_id, title });
    toast(t("sessions.renamed"));
    onDone();
  });
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${action.busy || !title.trim()}>${t("common.save")}</button>`;
  return html`<${Dialog} title=${t("sessions.rename_title")} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <${Field} label=${t("sessions.new_title")}><input class="input" value=${title} maxlength="200" onInput=${(event) => setTitle(event.target.value)} /><//>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

function Compact({ session, onClose, onDone }) {
  const [keep, setKeep] = useState("");
  const action = useAction(async () => {
    const given = keep === "" ? {} : { keep: Number(keep) };
    onDone(await call("compact_session", { session_id: session.session_id, ...given }));
  });
  return html`<${Confirm} title=${t("sessions.compact_title")} action=${t("sessions.compact")} danger=${false} busy=${action.busy} onConfirm=${action.start} onClose=${onClose}>
    <p>${t("sessions.compact_what")}</p>
    <${Field} label=${t("sessions.keep")} hint=${t("sessions.keep_hint")}><input class="input short" type="number" min="0" max="10000" value=${keep} onInput=${(event) => setKeep(event.target.value)} /><//>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

function Sleep({ session, onClose, onDone }) {
  const action = useAction(async () => onDone(await call("sleep_session", { session_id: session.session_id })));
  return html`<${Confirm} title=${t("sessions.sleep_title")} action=${t("sessions.sleep")} danger=${false} busy=${action.busy} onConfirm=${action.start} onClose=${onClose}>
    <p>${t("sessions.sleep_what")}</p>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}
