// A question, and the memories that answer it.

import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { shortDay, t } from "../i18n.js";
import { address, go } from "../router.js";
import { Warnings } from "../ui/memory.js";
import { useCall } from "../ui/state.js";
import { Busy, Button, Chip, Empty, ErrorNotice, Head, Meter, Notice, Select, TypeChip, useAction, When } from "../ui/widgets.js";

const TYPES = ["fact", "conversation", "context"];
const MOST_ASKED = 20;
// The questions of this visit with their answers. They are in no address and in no storage.
const asked = [];

export default function View({ place }) {
  const { project = "", type = "" } = place.query;
  const [question, setQuestion] = useState(asked[0]?.question ?? "");
  const [shown, setShown] = useState(asked[0] ?? null);
  const asking = useAction(async (text, options = {}) => {
    const given = { question: text, project: project || undefined, memory_type: type || undefined, ...options };
    const answer = await call("ask", given);
    const one = { question: text, answer, id: crypto.randomUUID() };
    asked.unshift(one);
    asked.splice(MOST_ASKED);
    setShown(one);
  });
  const submit = (event) => {
    event.preventDefault();
    if (question.trim()) asking.start(question.trim());
  };
  const setFilter = (change) => go(address("ask", "", { project, type, ...change }), { replace: true });
  const again = (one) => {
    setQuestion(one.question);
    setShown(one);
  };
  return html`<${Head} title=${t("ask.title")} lead=${t("ask.lead")} />
    <form class="ask-form card" onSubmit=${submit}>
      <div class="ask-line"><input class="input ask-input" aria-label=${t("ask.question")} placeholder=${t("ask.placeholder")} value=${question} maxlength="2000" autocomplete="off" onInput=${(event) => setQuestion(event.target.value)} /><button type="submit" class="button primary" disabled=${asking.busy || !question.trim()}>${t("ask.ask")}</button></div>
      <${Filters} project=${project} type=${type} setFilter=${setFilter} />
    </form>
    ${asking.error && html`<${ErrorNotice} error=${asking.error} />`}
    ${asking.busy && html`<${Busy} text=${t("ask.busy")} />`}
    <div class=${asked.length ? "ask-columns" : ""}>
      <div class="stack" aria-live="polite">${shown ? html`<${Found} key=${shown.id} found=${shown.answer} onQuote=${() => asking.start(shown.question, { written: false })} />` : !asking.busy && html`<${Empty} icon="ask" title=${t("ask.start")}>${t("ask.start_hint")}<//>`}</div>
      ${asked.length > 0 && html`<${Asked} current=${shown} onChoose=${again} />`}
    </div>`;
}

function Filters({ project, type, setFilter }) {
  const projects = useCall("list_projects");
  const names = (projects.answer?.projects ?? []).map((one) => one.project).filter(Boolean);
  const known = project && !names.includes(project) ? [project, ...names] : names;
  return html`<div class="row">
    <${Select} label=${t("ask.project")} value=${project} onChange=${(value) => setFilter({ project: value })} choices=${[["", t("ask.any_project")], ...known.map((name) => [name, name])]} />
    <${Select} label=${t("ask.type")} value=${type} onChange=${(value) => setFilter({ type: value })} choices=${[["", t("ask.any_type")], ...TYPES.map((name) => [name, t(`types.${name}`)])]} />
  </div>`;
}

function Found({ found, onQuote }) {
  const box = useRef(null);
  const [marked, setMarked] = useState(0);
  useEffect(() => setMarked(0), [found]);
  const jump = (number) => {
    setMarked(number);
    const source = box.current.querySelector(`[data-number="${number}"]`);
    source?.scrollIntoView({ block: "center", behavior: "smooth" });
    source?.focus({ preventScroll: true });
  };
  return html`<div class="stack" ref=${box}>
    <section class="card ask-answer" aria-label=${t("ask.answered")}>
      <p class="ask-asked">${found.question}</p>
      ${found.known ? html`<p class="ask-text">${found.sentences.map((one, place) => html`<${Sentence} key=${place} one=${one} onJump=${jump} />`)}</p>` : html`<${Notice} kind="warning" icon="info"><strong>${t("ask.unknown")}</strong><span class="hint">${t("ask.unknown_hint")}</span><//>`}
      <div class="spread">${found.known ? html`<${Chip} kind="outline">${t(`ask.by_${found.by}`)}<//>` : html`<span />`}${found.by === "llm" && html`<${Button} kind="small" onClick=${onQuote}>${t("ask.quote")}<//>`}</div>
    </section>
    <${Warnings} warnings=${found.warnings} />
    <${Sources} found=${found} marked=${marked} />
  </div>`;
}

function Sentence({ one, onJump }) {
  return html`<span class=${one.earlier ? "ask-earlier" : ""}>${one.earlier && html`<span class="small faint">${t("ask.earlier")}: </span>`}${one.text}${one.since && html` <span class="small faint">(${t("ask.since", { day: shortDay(one.since) })})</span>`}${one.numbers.map((number) => html` <button type="button" class="ask-number" key=${number} aria-label=${t("ask.jump", { number })} onClick=${() => onJump(number)}>${number}</button>`)} </span>`;
}

function Sources({ found, marked }) {
  const list = found.known ? found.citations : (found.closest ?? []);
  if (!list.length) return found.known ? null : html`<p class="soft">${t("ask.nothing_close")}</p>`;
  return html`<section class="stack tight" aria-label=${t(found.known ? "ask.sources" : "ask.closest")}><h2>${t(found.known ? "ask.sources" : "ask.closest")}</h2>
    <ol class="stack tight">${list.map((one) => html`<${Source} key=${one.memory_id} one=${one} isMarked=${one.number > 0 && one.number === marked} />`)}</ol></section>`;
}

function Source({ one, isMarked }) {
  const facts = [one.kind, one.name, one.who, one.project].filter(Boolean);
  return html`<li class=${`card ask-source ${isMarked ? "marked" : ""}`} data-number=${one.number || undefined} tabindex="-1">
    ${one.number > 0 && html`<span class="ask-number" aria-hidden="true">${one.number}</span>`}
    <div class="grow stack tight">
      <p class="text">${one.passage}</p>
      <div class="row small faint"><${TypeChip} type=${one.type} />${facts.map((fact) => html`<span class="cut" key=${fact}>${fact}</span>`)}<${When} time=${one.updated_at ?? one.created_at} /><a href=${address("memory", one.memory_id)}>${t("ask.open")}</a></div>
    </div>
    <${Meter} share=${one.score} label=${t("memory.score", { score: one.score.toFixed(2) })} />
  </li>`;
}

function Asked({ current, onChoose }) {
  return html`<aside class="card ask-before" aria-label=${t("ask.asked")}><h2>${t("ask.asked")}</h2><p class="small faint">${t("ask.asked_hint")}</p><ul>${asked.map((one) => html`<li key=${one.id}><button type="button" aria-current=${one === current ? "true" : undefined} onClick=${() => onChoose(one)}>${one.question}</button></li>`)}</ul></aside>`;
}
