// Facts written in a batch, with a preview of what becomes a memory and a report of each.

import { html, useMemo, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { t } from "../i18n.js";
import { address } from "../router.js";
import { tagsOf } from "../ui/bulk.js";
import { Options } from "../ui/edit.js";
import { Icon } from "../ui/icons.js";
import { forgetSoon } from "../ui/memory.js";
import { useCall, useDebounced } from "../ui/state.js";
import { Button, Chip, Field, Select, Tabs, TypeChip } from "../ui/widgets.js";

const SHOWN = 100; // memories of a preview or a report
const AT_ONCE = 4; // calls: the daemon commits them together
const TYPES = ["fact", "conversation", "context"];
const KINDS = ["preference", "decision", "requirement", "gotcha", "pattern", "module_insight", "workflow_recipe"];

export function WriteFacts() {
  const [text, setText] = useState("");
  const [by, setBy] = useState("line");
  const [chosen, setChosen] = useState({ type: "fact", kind: "", project: "", tags: "" });
  const [report, setReport] = useState(null); // {rows, done, total}
  const still = useDebounced(text, text.length > 20000 ? 300 : 60);
  const facts = useMemo(() => split(still, by), [still, by]);
  const busy = report !== null && report.done < report.total;
  const start = async () => {
    const left = await storeAll(split(text, by), chosen, setReport);
    setText(left.join(by === "line" ? "\n" : "\n\n"));
  };
  const submit = (event) => {
    event.preventDefault();
    if (!busy && split(text, by).length) start();
  };
  return html`<section class="card"><form class="stack" onSubmit=${submit}>
    <div class="spread"><h2>${t("teach.write")}</h2><${Tabs} label=${t("teach.split")} value=${by} choices=${[["line", t("teach.by_line")], ["paragraph", t("teach.by_paragraph")]]} onChange=${setBy} /></div>
    <div class="teach-grid">
      <${Field} label=${t("teach.facts")} hint=${t(`teach.hint_${by}`)}><textarea class="area tall" value=${text} disabled=${busy} placeholder=${t("teach.placeholder")} onInput=${(event) => setText(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && submit(event)} /><//>
      ${report && !text.trim() ? html`<${Report} report=${report} />` : html`<${Preview} facts=${facts} chosen=${chosen} />`}
    </div>
    <${Choices} chosen=${chosen} onChange=${setChosen} />
    <div class="row"><button type="submit" class="button primary" disabled=${busy || !facts.length}><${Icon} name="teach" />${facts.length ? t("teach.store", { n: facts.length }) : t("teach.store_none")}</button>
      ${busy && html`<progress max=${report.total} value=${report.done} aria-label=${t("teach.progress")}></progress><span class="small soft" role="status">${t("teach.stored_of", { n: report.done, of: report.total })}</span>`}
      <span class="keys"><span><kbd>Ctrl</kbd> <kbd>Enter</kbd> ${t("teach.key_store")}</span></span></div>
    ${report && text.trim() && !busy && html`<${Report} report=${report} />`}
  </form></section>`;
}

function Choices({ chosen, onChange }) {
  const known = useCall("filters");
  const set = (key) => (event) => onChange({ ...chosen, [key]: event.target ? event.target.value : event });
  const kinds = [...new Set([...(known.answer?.kinds ?? []).map(({ value }) => value), ...KINDS])].map((value) => ({ value }));
  return html`<div class="grid teach-choices">
    <${Field} label=${t("teach.type")} hint=${t(`teach.lives_${chosen.type}`)}><${Select} value=${chosen.type} choices=${TYPES.map((type) => [type, t(`types.${type}`)])} onChange=${set("type")} /><//>
    <${Field} label=${t("teach.kind")} hint=${t("teach.kind_hint")}><input class="input" list="teach-kinds" maxlength="50" value=${chosen.kind} onInput=${set("kind")} /><//>
    <${Field} label=${t("teach.project")} hint=${t("teach.project_hint")}><input class="input" list="teach-projects" maxlength="200" value=${chosen.project} onInput=${set("project")} /><//>
    <${Field} label=${t("teach.tags")} hint=${t("teach.tags_hint")}><input class="input" value=${chosen.tags} onInput=${set("tags")} /><//>
    <${Options} id="teach-kinds" counts=${kinds} /><${Options} id="teach-projects" counts=${known.answer?.projects} />
  </div>`;
}

// The texts that become memories: lines without their bullets, or paragraphs as they are.
function split(text, by) {
  const parts = by === "line" ? text.split(/\r?\n/).map((line) => line.replace(/^\s*(?:[-*+•]|\d{1,3}[.)])\s+/, "")) : text.split(/\r?\n[^\S\n]*\r?\n/);
  return parts.map((part) => part.trim()).filter((part) => part && (by !== "line" || !/^(?:#+|[-*=_]{3,})$/.test(part)));
}

function Preview({ facts, chosen }) {
  const seen = new Set();
  const rows = facts.slice(0, SHOWN).map((fact, place) => {
    const again = seen.has(fact) && chosen.type === "fact";
    seen.add(fact);
    return html`<li key=${place} class=${again ? "again" : ""}><span class="words">${fact}</span>${again && html`<${Chip} kind="warning">${t("teach.twice")}<//>`}</li>`;
  });
  const marks = [chosen.kind.trim(), chosen.project.trim(), ...tagsOf(chosen.tags).map((tag) => `#${tag}`)].filter(Boolean);
  return html`<div class="teach-preview" aria-live="polite"><div class="row"><span class="label-before">${facts.length ? t("teach.preview", { n: facts.length }) : t("teach.preview_title")}</span>${facts.length > 0 && html`<${TypeChip} type=${chosen.type} />${marks.map((mark) => html`<${Chip} key=${mark}>${mark}<//>`)}`}</div>
    ${facts.length ? html`<ol class="teach-list">${rows}</ol>` : html`<p class="faint">${t("teach.preview_empty")}</p>`}
    ${facts.length > SHOWN && html`<p class="small faint">${t("teach.and_more", { n: facts.length - SHOWN })}</p>`}</div>`;
}

// Stores each text; the texts that were refused, to be corrected.
async function storeAll(facts, chosen, show) {
  const tags = tagsOf(chosen.tags);
  const metadata = { source: "user_taught", ...(chosen.kind.trim() && { kind: chosen.kind.trim() }), ...(chosen.project.trim() && { project: chosen.project.trim() }), ...(tags.length && { tags }) };
  const rows = new Array(facts.length);
  let [next, done] = [0, 0];
  show({ rows: [], done, total: facts.length });
  const work = async () => {
    while (next < facts.length) {
      const place = next++;
      rows[place] = await storeOne(facts[place], chosen.type, metadata);
      done += 1;
      if (done % 10 === 0) show({ rows: [], done, total: facts.length });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  show({ rows, done, total: facts.length });
  return rows.filter((row) => row.outcome === "refused").map((row) => row.text);
}

async function storeOne(text, type, metadata) {
  try {
    const stored = await call("store_memory", { content: text, memory_type: type, metadata });
    const outcome = stored.duplicate ? "known" : stored.warnings.length ? "warned" : "stored";
    return { text, outcome, id: stored.id, content: stored.content, warnings: stored.warnings };
  } catch (error) {
    return { text, outcome: "refused", message: error.message || t("common.unreachable"), hint: error.hint };
  }
}

const KIND_OF = { stored: "good", known: "", warned: "warning", refused: "danger" };

function Report({ report }) {
  const [undone, setUndone] = useState(false);
  const counts = Object.keys(KIND_OF).map((outcome) => [outcome, report.rows.filter((row) => row.outcome === outcome).length]);
  const added = report.rows.filter((row) => row.outcome === "stored" || row.outcome === "warned").map((row) => row.id);
  // What needs to be read comes first.
  const order = [...report.rows].sort((one, other) => rank(one) - rank(other));
  const undo = () => {
    setUndone(true);
    forgetSoon(added, () => {});
  };
  return html`<div class="teach-preview" role="status"><div class="row">${counts.filter(([, n]) => n).map(([outcome, n]) => html`<${Chip} key=${outcome} kind=${KIND_OF[outcome]}>${t(`teach.count_${outcome}`, { n })}<//>`)}${added.length > 0 && !undone && html`<${Button} kind="quiet small" icon="trash" onClick=${undo}>${t("teach.forget_again")}<//>`}</div>
    <ol class="teach-list">${order.slice(0, SHOWN).map((row, place) => html`<li key=${place}><${Chip} kind=${KIND_OF[row.outcome]}>${t(`teach.outcome_${row.outcome}`)}<//>${row.id ? html`<a class="words" href=${address("memory", row.id)}>${row.content}</a>` : html`<span class="words">${row.text}</span>`}${(row.warnings ?? []).map((said) => html`<span key=${said} class="small soft said">${said}</span>`)}${row.message && html`<span class="small said danger-text">${row.message} ${row.hint}</span>`}</li>`)}</ol>
    ${order.length > SHOWN && html`<p class="small faint">${t("teach.and_more", { n: order.length - SHOWN })}</p>`}</div>`;
}

const rank = (row) => ["refused", "warned", "known", "stored"].indexOf(row.outcome);
