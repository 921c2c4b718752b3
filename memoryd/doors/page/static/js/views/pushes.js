// What was put into prompts unasked, what it cost, and what a prompt would get.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { clockTime, day, number, shortDay, t } from "../i18n.js";
import { address, go } from "../router.js";
import { Bars } from "../ui/charts.js";
import { useCall, useReloadOnChange } from "../ui/state.js";
import { Answer, Busy, Button, Chip, Empty, ErrorNotice, Head, Meter, Select, TypeChip, useAction, When } from "../ui/widgets.js";

const MOST = 1000; // pushes that are read
const PAGE = 30; // pushes that are shown at once
const DAYS = 30;
const SESSIONS = 8;

export default function View({ place }) {
  const pushes = useCall("list_pushes", { limit: MOST });
  const sessions = useCall("list_sessions", { limit: MOST });
  useReloadOnChange(pushes.reload, 3000);
  const titles = new Map((sessions.answer?.sessions ?? []).map((one) => [one.session_id, one.title]));
  return html`<${Head} title=${t("pushes.title")} lead=${t("pushes.lead")} />
    <${Explain} />
    <${Answer} of=${pushes}>${(found) => (found.total ? html`<${Pushed} found=${found} titles=${titles} session=${place.query.session ?? ""} />` : html`<${Empty} icon="pushes" title=${t("pushes.empty")}>${t("pushes.empty_hint")}<//>`)}<//>`;
}

function Explain() {
  const [prompt, setPrompt] = useState("");
  const [project, setProject] = useState("");
  const [found, setFound] = useState(null);
  const projects = useCall("list_projects");
  const names = (projects.answer?.projects ?? []).map((one) => one.project).filter(Boolean);
  const explain = useAction(async () => setFound(await call("explain_push", { prompt, ...(project ? { project } : { no_project: true }) })));
  const submit = (event) => {
    event?.preventDefault();
    if (prompt.trim()) explain.start();
  };
  const onKey = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && submit(event);
  return html`<section class="card pushes-explain" aria-label=${t("pushes.explain")}>
    <h2>${t("pushes.explain")}</h2>
    <form class="stack tight" onSubmit=${submit}>
      <textarea class="area" rows="3" aria-label=${t("pushes.prompt")} placeholder=${t("pushes.prompt_placeholder")} value=${prompt} onInput=${(event) => setPrompt(event.target.value)} onKeyDown=${onKey} />
      <div class="row"><${Select} label=${t("pushes.project")} value=${project} onChange=${setProject} choices=${[["", t("pushes.no_project")], ...names.map((name) => [name, name])]} /><button type="submit" class="button primary" disabled=${!prompt.trim() || explain.busy}>${t("pushes.show")}</button>${explain.busy && html`<${Busy} text=${t("pushes.busy")} />`}</div>
    </form>
    ${explain.error && html`<${ErrorNotice} error=${explain.error} />`}
    ${found && html`<${Explained} found=${found} />`}
  </section>`;
}

function Explained({ found }) {
  return html`<div class="stack tight" aria-live="polite">
    ${found.text ? html`<h3>${t("pushes.text")}</h3><pre class="pushes-text" tabindex="0">${found.text}</pre>` : html`<p><strong>${t("pushes.nothing")}</strong> ${found.reason}</p>`}
    <h3>${t("pushes.candidates")}</h3>
    ${found.candidates.length ? html`<ol class="pushes-candidates">${found.candidates.map((one) => html`<li key=${one.id}><${Chip} kind=${one.pushed ? "good" : ""}>${one.pushed ? t("pushes.pushed") : t("pushes.left_out")}<//><div class="grow"><a class="text" href=${address("memory", one.id)}>${one.content}</a>${one.refused && html`<p class="small faint">${one.refused}</p>`}</div><${Meter} share=${one.score} label=${t("memory.score", { score: number(one.score, 2) })} /></li>`)}</ol>` : html`<p class="soft">${t("pushes.no_candidates")}</p>`}
  </div>`;
}

function Pushed({ found, titles, session }) {
  const choose = (id) => go(address("pushes", "", { session: id }), { replace: true });
  const shown = session ? found.pushes.filter((one) => one.session_id === session) : found.pushes;
  return html`<${Totals} found=${found} titles=${titles} session=${session} onChoose=${choose} /><${Log} key=${session} pushes=${shown} titles=${titles} session=${session} onChoose=${choose} />`;
}

function Totals({ found, titles, session, onChoose }) {
  const groups = bySession(found.pushes);
  const days = byDay(found.pushes);
  const rows = days.map(({ date, tokens }) => ({ label: shortDay(date), values: { accent: tokens }, title: t("pushes.day_title", { day: shortDay(date), n: tokens }) }));
  return html`<div class="grid two pushes-totals">
    <section class="card"><div class="spread"><h2>${t("pushes.per_day")}</h2></div>
      <dl class="pushes-figures"><${Figure} name=${t("pushes.total_tokens")} value=${found.tokens} /><${Figure} name=${t("pushes.total_pushes")} value=${found.total} /><${Figure} name=${t("pushes.total_sessions")} value=${groups.length} /></dl>
      <${Bars} rows=${rows} parts=${["accent"]} label=${t("pushes.chart", { n: DAYS })} /></section>
    <section class="card"><h2>${t("pushes.by_session")}</h2><div class="table-box"><table class="table"><thead><tr><th>${t("pushes.session")}</th><th class="number">${t("pushes.count")}</th><th class="number">${t("pushes.tokens")}</th></tr></thead>
      <tbody>${groups.slice(0, SESSIONS).map((one) => html`<tr key=${one.id}><td><button type="button" class="pushes-session cut" aria-pressed=${String(one.id === session)} onClick=${() => onChoose(one.id === session ? "" : one.id)}>${titles.get(one.id) || one.id}</button></td><td class="number">${number(one.count)}</td><td class="number">${number(one.tokens)}</td></tr>`)}</tbody></table></div></section>
  </div>`;
}

function Figure({ name, value }) {
  return html`<div><dt>${name}</dt><dd class="number">${number(value)}</dd></div>`;
}

function bySession(pushes) {
  const groups = new Map();
  for (const { session_id: id, tokens } of pushes) {
    const group = groups.get(id) ?? { id, count: 0, tokens: 0 };
    group.count += 1;
    group.tokens += tokens;
    groups.set(id, group);
  }
  return [...groups.values()].sort((a, b) => b.tokens - a.tokens);
}

// The last days, oldest first, each with its tokens.
function byDay(pushes) {
  const today = new Date();
  const days = Array.from({ length: DAYS }, (_, ago) => {
    const date = new Date(today.getFullYear(), today.getMonth(), today.getDate() - (DAYS - 1 - ago));
    return { date, tokens: 0 };
  });
  const places = new Map(days.map(({ date }, place) => [date.toDateString(), place]));
  for (const { at, tokens } of pushes) {
    const place = places.get(new Date(at).toDateString());
    if (place !== undefined) days[place].tokens += tokens;
  }
  return days;
}

function Log({ pushes, titles, session, onChoose }) {
  const [count, setCount] = useState(PAGE);
  const shown = pushes.slice(0, count);
  let before = "";
  const rows = shown.map((push) => {
    const date = new Date(push.at).toDateString();
    const isNewDay = date !== before;
    before = date;
    return html`${isNewDay && html`<li class="pushes-day" key=${date}><h3>${day(push.at)}</h3></li>`}<${PushRow} key=${`${push.session_id} ${push.at} ${push.event}`} push=${push} title=${titles.get(push.session_id)} session=${session} onChoose=${onChoose} />`;
  });
  return html`<section class="card" aria-label=${t("pushes.log")}><div class="spread"><h2>${t("pushes.log")}</h2><span class="row"><span class="small faint">${t("pushes.showing", { shown: shown.length, total: pushes.length })}</span>${session && html`<${Button} kind="small" icon="close" onClick=${() => onChoose("")}>${t("pushes.all_sessions")}<//>`}</span></div>
    <ul class="pushes-log">${rows}</ul>
    ${count < pushes.length && html`<${Button} onClick=${() => setCount(count + PAGE)}>${t("pushes.more")}<//>`}</section>`;
}

function PushRow({ push, title, session, onChoose }) {
  const [isOpen, setOpen] = useState(false);
  return html`<li class="pushes-row">
    <div class="row"><time class="number faint" datetime=${push.at}>${clockTime(push.at)}</time><${Chip}>${push.event}<//>
      ${session ? html`<a class="cut" href=${address("sessions", push.session_id)}>${title || push.session_id}</a>` : html`<button type="button" class="pushes-session cut" title=${t("pushes.only_session")} onClick=${() => onChoose(push.session_id)}>${title || push.session_id}</button>`}
      <span class="pushes-tokens number faint">${t("pushes.n_tokens", { n: push.tokens })}</span></div>
    <div class="spread"><span class="soft">${push.why}</span>${push.ids.length ? html`<${Button} kind="small" icon=${isOpen ? "close" : "down"} aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>${t("pushes.memories", { n: push.ids.length })}<//>` : html`<span class="small faint">${t("pushes.no_memories")}</span>`}</div>
    ${isOpen && html`<${Texts} ids=${push.ids} />`}
  </li>`;
}

// The memories of a push, read when they are asked for.
function Texts({ ids }) {
  const [count, setCount] = useState(10);
  const found = useCall("read_memories", { memory_ids: ids.slice(0, count) });
  return html`<div class="pushes-texts"><${Answer} of=${found}>${({ memories, missing }) => html`<ul>${memories.map((one) => html`<${Text} key=${one.id} memory=${one} />`)}${missing.map((id) => html`<li class="faint" key=${id}>${t("pushes.gone")}</li>`)}</ul>`}<//>${count < ids.length && html`<${Button} kind="small" onClick=${() => setCount(count + 20)}>${t("pushes.more")}<//>`}</div>`;
}

function Text({ memory: { id, content, type, created_at: at } }) {
  return html`<li><${TypeChip} type=${type} /><a class="text grow" href=${address("memory", id)}>${content.length > 500 ? `${content.slice(0, 500)}…` : content}</a><span class="small faint"><${When} time=${at} /></span></li>`;
}
