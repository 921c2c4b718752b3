// The sessions, one of them as a conversation, and the working memories.

import { html, useState } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { address, go } from "../router.js";
import { useCall, useReloadOnChange } from "../ui/state.js";
import { Answer, Button, Chip, Empty, Head, Select, Tabs, When } from "../ui/widgets.js";
import { WorkingMemory } from "../ui/working_memory.js";
import { Session } from "./session.js";

const PAGE = 50;
const MOST = 1000; // that one call lists

export default function View({ place }) {
  if (place.argument) return html`<${Session} key=${place.argument} id=${place.argument} />`;
  const { tab = "list", identity = "" } = place.query;
  const change = (query) => go(address("sessions", "", { ...place.query, ...query }), { replace: true });
  const choices = [["list", t("sessions.tab_list")], ["memory", t("sessions.tab_memory")]];
  return html`<${Head} title=${t("sessions.title")} lead=${t("sessions.lead")}><${Tabs} label=${t("sessions.what")} value=${tab} choices=${choices} onChange=${(name) => change({ tab: name === "list" ? "" : name })} /><//>
    ${tab === "memory" ? html`<${WorkingMemory} identity=${identity || "default"} onChoose=${(name) => change({ identity: name })} />` : html`<${List} identity=${identity} onChoose=${(name) => change({ identity: name })} />`}`;
}

function List({ identity, onChoose }) {
  const [limit, setLimit] = useState(PAGE);
  const [filter, setFilter] = useState("");
  const [known, setKnown] = useState([]);
  const found = useCall("list_sessions", { limit, ...(identity ? { identity } : {}) });
  useReloadOnChange(found.reload);
  return html`<${Answer} of=${found}>${(answer) => {
    const identities = [...new Set([...known, ...answer.sessions.map((one) => one.identity), identity])].filter(Boolean).sort();
    if (identities.length > known.length) setKnown(identities);
    const words = filter.trim().toLowerCase();
    const shown = answer.sessions.filter((one) => `${one.title ?? ""} ${one.session_id} ${one.project ?? ""}`.toLowerCase().includes(words));
    return html`
      <div class="row list-filters">
        <input class="input filter-text" type="search" aria-label=${t("sessions.filter")} placeholder=${t("sessions.filter")} value=${filter} onInput=${(event) => setFilter(event.target.value)} />
        <${Select} label=${t("sessions.identity")} value=${identity} choices=${[["", t("sessions.every_identity")], ...identities.map((name) => [name, name])]} onChange=${onChoose} />
        <span class="small faint" role="status">${t("sessions.count", { n: answer.total })}</span>
      </div>
      ${shown.length ? html`<ul class="card session-list">${shown.map((one) => html`<${SessionRow} key=${one.session_id} session=${one} />`)}</ul>` : html`<div class="card"><${Empty} icon="sessions" title=${answer.total ? t("sessions.none_match") : t("sessions.none")}>${answer.total ? "" : t("sessions.none_hint")}<//></div>`}
      ${answer.sessions.length < Math.min(answer.total, MOST) && html`<div class="row"><${Button} disabled=${found.busy} onClick=${() => setLimit(Math.min(MOST, limit + PAGE))}>${t("common.more")}<//></div>`}`;
  }}<//>`;
}

function SessionRow({ session }) {
  const counts = [t("sessions.messages", { n: session.messages }), session.archives > 0 && t("sessions.archives", { n: session.archives })];
  return html`<li><a class="session-row" href=${address("sessions", session.session_id)}>
    <span class="session-title">${session.title ?? session.session_id}</span>
    <span class="session-state"><${State} session=${session} /></span>
    <span class="facts-line">${session.title && html`<span class="mono cut">${session.session_id}</span>`}${session.identity && html`<${Chip}>${session.identity}<//>`}${session.project && html`<span class="cut">${session.project}</span>`}<span>${counts.filter(Boolean).join(", ")}</span><${When} time=${session.last_at ?? session.created_at} /></span>
  </a></li>`;
}

function State({ session }) {
  const asleep = session.state === "asleep";
  return html`<${Chip} kind=${asleep ? "" : "good"}>${t(asleep ? "sessions.asleep" : "sessions.open")}<//>`;
}
