// What is around a memory: where it comes from, what was said before and after it, what it replaces.

import { html } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { address } from "../router.js";
import { ShortMemory } from "../ui/memory.js";
import { Answer, Busy, Chip, Facts } from "../ui/widgets.js";

export function Context({ detail }) {
  if (detail.answer && !detail.isCurrent && !detail.error) return html`<${Busy} />`;
  return html`<${Answer} of=${detail}>${(found) => html`<${Around} found=${found} />`}<//>`;
}

function Around({ found }) {
  const { neighbours, chain, relations, files, nearest } = found;
  const isAlone = ![neighbours, chain, relations, files, nearest ?? []].some((list) => list.length);
  return html`<div class="stack">
    <${Origin} found=${found} />
    ${isAlone && html`<p class="soft small">${t("review.no_context")}</p>`}
    <${Shorts} title=${t("review.neighbours")} list=${neighbours} />
    <${Shorts} title=${t("review.chain")} list=${chain} />
    <${Shorts} title=${t("review.relations")} list=${relations} />
    <${Files} files=${files} />
    <${Shorts} title=${t("review.nearest")} list=${nearest ?? []} />
  </div>`;
}

function Origin({ found }) {
  const { provenance, confidence, uses } = found;
  const session = provenance.session_id && html`<a href=${address("sessions", provenance.session_id)}>${provenance.session_title || provenance.session_id}</a>`;
  const rows = [
    [t("review.source"), provenance.source],
    [t("review.speaker"), provenance.speaker ?? provenance.role],
    [t("review.project"), provenance.project],
    [t("review.session"), session],
    [t("review.confidence"), confidence.sentence],
    [t("review.uses"), t("review.used", { n: uses.count })],
  ];
  return html`<${Facts} rows=${rows} />`;
}

function Shorts({ title, list }) {
  if (!list.length) return null;
  return html`<section><h3>${title}</h3><ul class="review-shorts">${list.map((one, place) => html`<${ShortMemory} key=${place} memory=${one}>${one.is_this && html`<${Chip} kind="good">${t("review.speech_this")}<//>`}<//>`)}</ul></section>`;
}

function Files({ files }) {
  if (!files.length) return null;
  return html`<section><h3>${t("review.files")}</h3><ul class="review-shorts">${files.map((one) => html`<li class="row" key=${one.file}><code>${one.file}</code>${one.stale && html`<${Chip} kind="warning">${t("review.stale")}<//>`}</li>`)}</ul></section>`;
}
