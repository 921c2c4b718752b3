// How the memory is doing: health, what needs attention, what is kept, and the daemon's figures.

import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { bytes, duration, hasText, number, shortDay, t } from "../i18n.js";
import { address } from "../router.js";
import { Bars, Gauge, Legend, Lines, Shares } from "../ui/charts.js";
import { Icon } from "../ui/icons.js";
import { useSamples } from "../ui/samples.js";
import { useCall, useEvents, useReloadOnChange } from "../ui/state.js";
import { Busy, ErrorNotice, Head, Tabs, When } from "../ui/widgets.js";

const TYPES = ["fact", "conversation", "context"];
const RELOAD = 3000; // milliseconds between two reloads while memories change
const FEW = 8; // values shown of a long list
let kept = null; // the last answer, to show at once when one comes back

export default function Overview() {
  const asked = useCall("overview", {}, { every: 60_000 });
  const counts = useLiveCounts(asked.answer);
  useReloadOnChange(asked.reload, RELOAD);
  useEffect(() => {
    kept = asked.answer ?? kept;
  }, [asked.answer]);
  const found = asked.answer ?? kept;
  return html`<${Head} title=${t("overview.title")} lead=${found ? leadOf(found) : t("overview.lead")} />
    ${asked.error && html`<${ErrorNotice} error=${asked.error} onRetry=${asked.reload} />`}
    ${found ? html`<${Found} found=${found} counts=${counts ?? found.by_type} />` : !asked.error && html`<${Waiting} />`}
    <${Figures} />`;
}

// Counts by type, which come with every change, before the overview is asked for again.
function useLiveCounts(answer) {
  const [counts, setCounts] = useState(null);
  useEvents((event, data) => event === "changed" && setCounts(data.memories));
  useEffect(() => setCounts(null), [answer]);
  return counts;
}

function leadOf(found) {
  return t("overview.running", { version: found.version, time: duration(found.uptime_seconds), model: found.model ?? t("overview.no_model") });
}

function Waiting() {
  return html`<div class="overview-top" aria-hidden="true"><div class="card waiting tall"></div><div class="card waiting tall"></div></div><${Busy} />`;
}

function Found({ found, counts }) {
  return html`<div class="overview-top"><${Health} health=${found.health} /><${Attention} attention=${found.attention} /></div>
    <${Totals} totals=${found.totals} counts=${counts} />
    <div class="grid two"><${Days} title=${t("overview.remembered")} lead="remembered_sum" days=${found.remembered} /><${Days} title=${t("overview.expiring")} lead="expiring_sum" days=${found.expiring} /></div>
    <div class="grid">${["kind", "project", "source"].map((key) => html`<${Values} key=${key} name=${key} values=${found[`by_${key}`]} />`)}</div>`;
}

const kindOf = (score) => (score >= 90 ? "good" : score >= 70 ? "warning" : "danger");

function Health({ health }) {
  const kind = kindOf(health.score);
  const label = t("overview.health_label", { score: health.score });
  return html`<section class="card health"><h2>${t("overview.health")}</h2>
    <div class="health-body"><${Gauge} value=${health.score} kind=${kind} label=${label} below=${t(`overview.health_${kind}`)} />
      ${health.reasons.length ? html`<ul class="reasons">${health.reasons.map((reason) => html`<${Reason} key=${reason.code} reason=${reason} />`)}</ul>` : html`<p class="soft">${t("overview.all_well")}</p>`}
    </div></section>`;
}

// Where a reason can be looked into or ended.
const PLACES = {
  backup_missing: ["doctor", "backups"],
  backup_off: ["settings", "backup"],
  backup_old: ["doctor", "backups"],
  words_by_choice: ["settings", "embedding"],
  llm_failed: ["settings", "llm"],
  mirror_failed: ["settings", "mirror"],
  review_backlog: ["review", ""],
  stale_files: ["browse", "", { stale: 1 }],
};

function Reason({ reason }) {
  const [view, argument, query] = PLACES[reason.code] ?? ["doctor", ""];
  const todo = `overview.todo.${reason.code}`;
  return html`<li class=${`reason ${reason.severity}`}><span class="points number" title=${t("overview.points", { n: reason.points })}>−${number(reason.points)}</span>
    <div><p>${reason.sentence}</p><p class="small soft">${hasText(todo) && t(todo)} <a href=${address(view, argument, query)}>${t(`overview.open.${view}`)}</a></p></div></li>`;
}

function Attention({ attention: found }) {
  const rows = [
    ["needs_review", found.needs_review, "edit", address("browse", "", { needs_review: 1 })],
    ["stale", found.stale, "file", address("browse", "", { stale: 1 })],
    ["deprecated", found.deprecated, "down", address("browse", "", { deprecated: 1 })],
    ["pending_vectors", found.pending_vectors, "clock", address("doctor")],
    ["mirror_held", found.mirror_held, "notes", address("doctor")],
  ];
  return html`<section class="card"><h2>${t("overview.attention")}</h2><ul class="attention">
    ${rows.map(([name, n, icon, href]) => html`<li key=${name} class=${n ? "some" : ""}><a href=${href}><${Icon} name=${n ? icon : "check"} /><span class="grow">${t(`overview.${name}`)}</span><strong class="number">${number(n)}</strong></a></li>`)}
    <li class=${found.last_backup ? "" : "some"}><a href=${address("doctor", "backups")}><${Icon} name="backups" /><span class="grow">${t("overview.last_backup")}</span><strong>${found.last_backup ? html`<${When} time=${found.last_backup} />` : t("overview.never")}</strong></a></li>
  </ul></section>`;
}

function Totals({ totals, counts }) {
  const sum = TYPES.reduce((all, type) => all + counts[type], 0);
  const others = [
    ["sessions", totals.sessions, address("sessions")],
    ["projects", totals.projects, address("projects")],
    ["notes", totals.notes, address("notes")],
    ["pinned", totals.pinned, address("browse", "", { pinned: 1 })],
  ];
  return html`<section class="card totals" aria-label=${t("overview.kept")}>
    <div class="total-all"><a href=${address("browse")}><strong class="number">${number(sum)}</strong><span>${t("overview.memories", { n: sum })}</span></a></div>
    <div class="total-types"><div class="proportion" aria-hidden="true">${TYPES.map((type) => counts[type] > 0 && html`<i key=${type} class=${type} style=${{ flexGrow: counts[type] }}></i>`)}</div>
      <ul>${TYPES.map((type) => html`<li key=${type}><a href=${address("browse", "", { type })}><i class=${`dot ${type}`}></i>${t(`types.${type}`)} <strong class="number">${number(counts[type])}</strong></a></li>`)}</ul></div>
    <ul class="total-others">${others.map(([name, n, href]) => html`<li key=${name}><a href=${href}><strong class="number">${number(n)}</strong><span>${t(`overview.${name}`, { n })}</span></a></li>`)}</ul>
  </section>`;
}

const sumOf = (day) => TYPES.reduce((sum, type) => sum + day[type], 0);

function Days({ title, lead, days }) {
  const total = days.reduce((sum, day) => sum + sumOf(day), 0);
  const words = t(`overview.${lead}`, { n: total, days: days.length });
  const rows = days.map((day) => ({ label: shortDay(day.day), values: day, title: `${shortDay(day.day)}: ${TYPES.filter((type) => day[type]).map((type) => `${number(day[type])} ${t(`types.${type}`)}`).join(", ") || "0"}` }));
  return html`<section class="card"><div class="spread"><h2>${title}</h2><${Legend} parts=${TYPES.map((type) => [type, t(`types.${type}`)])} /></div>
    <p class="small soft">${words}</p><${Bars} rows=${rows} parts=${TYPES} label=${`${title}. ${words}`} height=${170} /></section>`;
}

function Values({ name, values }) {
  const [all, setAll] = useState(false);
  const ordered = [...values.filter((one) => one.value !== null), ...values.filter((one) => one.value === null)];
  const isLong = ordered.length > FEW + 2;
  const shown = isLong && !all ? ordered.slice(0, FEW) : ordered;
  const title = t(`overview.by_${name}`);
  const rows = shown.map(({ value, memories }) => ({ label: value ?? t(`overview.no_${name}`), value: memories, color: value === null ? "none" : "accent", href: value === null ? undefined : address("browse", "", { [name]: value }) }));
  return html`<section class="card"><h2>${title}</h2>${rows.length ? html`<${Shares} rows=${rows} label=${title} />` : html`<p class="soft">${t("common.none")}</p>`}
    ${isLong && html`<button type="button" class="button quiet small" aria-expanded=${String(all)} onClick=${() => setAll(!all)}>${all ? t("overview.fewer") : t("overview.all_values", { n: values.length })}</button>`}</section>`;
}

// Latency and RAM of the daemon.
function Figures() {
  const [span, setSpan] = useState("hour");
  const samples = useSamples();
  const seconds = span === "hour" ? 3600 : 86_400;
  const points = span === "hour" ? samples.short : withPresent(samples);
  // A daemon that has just started does not leave most of its chart empty.
  const first = Math.min(points[0]?.at ?? samples.now, samples.now - 600);
  const drawn = { points, from: Math.max(samples.now - seconds, first), to: samples.now };
  const choices = [["hour", t("overview.hour")], ["day", t("overview.day")]];
  return html`<section class="figures stack"><div class="spread"><h2>${t("overview.figures")}</h2><${Tabs} label=${t("overview.span")} value=${span} choices=${choices} onChange=${setSpan} /></div>
    ${samples.error && !samples.answer && html`<${ErrorNotice} error=${samples.error} onRetry=${samples.reload} />`}
    <div class="grid two"><${Latency} ...${drawn} /><${Ram} ...${drawn} /></div></section>`;
}

// The day, with the last hour at its end until its own samples cover it.
function withPresent({ long, short }) {
  const last = long.at(-1)?.at ?? 0;
  return [...long, ...short.filter((one, place) => one.at > last && place % 6 === 0)];
}

function Latency({ points, ...times }) {
  const series = [["p50", "accent"], ["p99", "conversation"]].map(([name, color]) => ({ name, color, points: points.map((one) => [one.at, one[`${name}_ms`]]) }));
  const latest = points.findLast((one) => one.p50_ms !== null);
  const calls = points.reduce((sum, one) => sum + one.calls, 0);
  const words = latest ? t("overview.latency_now", { p50: milliseconds(latest.p50_ms), p99: milliseconds(latest.p99_ms), n: calls }) : t("overview.no_calls");
  return html`<${Figure} title=${t("overview.latency")} words=${words} parts=${[["accent", "p50"], ["conversation", "p99"]]} series=${series} format=${milliseconds} ...${times} />`;
}

function Ram({ points, ...times }) {
  const names = [["daemon_bytes", "accent", t("overview.daemon")], ["worker_bytes", "context", t("overview.worker")]];
  const series = names.map(([key, color, name]) => ({ name, color, points: points.map((one) => [one.at, one[key]]) }));
  const latest = points.at(-1);
  const words = latest ? t("overview.ram_now", { daemon: bytes(latest.daemon_bytes), worker: latest.worker_bytes === null ? "–" : bytes(latest.worker_bytes) }) : t("overview.no_samples");
  return html`<${Figure} title=${t("overview.ram")} words=${words} parts=${names.map(([, color, name]) => [color, name])} series=${series} format=${bytes} ...${times} />`;
}

function Figure({ title, words, parts, ...lines }) {
  return html`<section class="card"><div class="spread"><h3>${title}</h3><${Legend} parts=${parts} /></div><p class="small soft">${words}</p><${Lines} ...${lines} label=${`${title}. ${words}`} height=${170} /></section>`;
}

const milliseconds = (value) => `${number(value, value < 10 ? 1 : 0)} ms`;
