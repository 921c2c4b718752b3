// Memories that wait for a person's word, one after another.

import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { Context } from "../review/context.js";
import { isOpen, useQueue } from "../review/queue.js";
import { address } from "../router.js";
import { Icon } from "../ui/icons.js";
import { useCall } from "../ui/state.js";
import { Busy, Button, Chip, Empty, ErrorNotice, Head, TypeChip, useAction, When } from "../ui/widgets.js";

const [BEFORE, AFTER] = [4, 20]; // items of the list around the one that is shown

export default function View() {
  const queue = useQueue();
  const { items, place, length, error, load } = queue;
  const item = items?.[place];
  const [edited, setEdited] = useState(null); // the id: another item is never in editing
  const isEditing = Boolean(item) && edited === item.id;
  const setEditing = (on) => setEdited(on ? item.id : null);
  const act = actionsOf(queue, item, setEditing);
  useKeys(isEditing, act);
  const progress = item && html`<span class="review-progress number" aria-live="polite">${t("review.progress", { place: place + 1, total: length })}</span>`;
  const head = html`<${Head} title=${t("review.title")} lead=${t("review.lead")}>${progress}<//>`;
  if (!items) return html`${head}${error ? html`<${ErrorNotice} error=${error} onRetry=${() => load()} />` : html`<${Busy} />`}`;
  return html`${head}${error && html`<${ErrorNotice} error=${error} onRetry=${() => load()} />`}
    ${length > 0 && html`<progress class="review-bar" max=${length} value=${queue.done} aria-label=${t("review.title")} />`}
    ${items.length > 0 ? html`<div class="review-columns"><div class="stack">${item ? html`<${One} key=${item.id} item=${item} queue=${queue} act=${act} isEditing=${isEditing} setEditing=${setEditing} />` : html`<${Done} queue=${queue} />`}</div><${List} queue=${queue} /></div>` : html`<${Empty} icon="review" title=${t("review.none")}>${t("review.none_hint")}<//>`}`;
}

// What each key and its button do with the item that is shown; null: not possible now.
function actionsOf(queue, item, setEditing) {
  const canJudge = item && isOpen(item);
  return {
    confirm: canJudge ? () => queue.confirm(item.id) : null,
    correct: canJudge ? () => setEditing(true) : null,
    reject: canJudge ? () => queue.reject(item.id) : null,
    skip: item ? queue.skip : null,
    back: queue.place > 0 ? () => queue.moveTo(queue.place - 1) : null,
  };
}

const KEYS = { c: "confirm", e: "correct", r: "reject", s: "skip", ArrowRight: "skip", ArrowLeft: "back" };

function useKeys(isEditing, act) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const press = (event) => {
      const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]");
      if (isEditing || isTyping || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      const action = latest.current[KEYS[event.key]];
      if (!action) return;
      event.preventDefault();
      action();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [isEditing]);
}

function One({ item, queue, act, isEditing, setEditing }) {
  const detail = useCall("memory_detail", { memory_id: item.id });
  const exact = detail.isCurrent ? detail.answer?.memory : null;
  const memory = isOpen(item) ? (exact ?? item.memory) : item.memory;
  const { kind, review_reason: reason } = item.memory.metadata ?? {};
  const failed = queue.failed?.id === item.id ? queue.failed.error : null;
  return html`<article class="card review-one">
    <div class="spread"><div class="row"><${TypeChip} type=${item.memory.type} />${kind && html`<${Chip}>${kind}<//>`}${item.memory.name && html`<strong class="cut">${item.memory.name}</strong>`}<span class="small faint"><${When} time=${item.memory.created_at} /></span>${!isOpen(item) && html`<${Chip} kind=${item.state === "rejected" ? "danger" : "good"}>${t(`review.state_${item.state}`)}<//>`}</div><a class="small" href=${address("memory", item.id)}>${t("review.open")}</a></div>
    ${isEditing ? html`<${Edit} item=${item} exact=${exact} error=${detail.error} queue=${queue} onClose=${() => setEditing(false)} />` : html`<p class="text review-words">${memory.content}</p>`}
    <div class="review-reason"><${Icon} name="warning" /><div><strong>${t("review.why")}</strong><p>${reason || t("review.no_reason")}</p></div></div>
    ${failed && html`<${ErrorNotice} error=${failed} />`}
    ${!isEditing && html`<${Judge} act=${act} />`}
  </article>
  <section class="card" aria-label=${t("review.context")}><h2>${t("review.context")}</h2>${item.state === "rejected" ? html`<p class="soft">${t("review.rejected")}</p>` : html`<${Context} detail=${detail} />`}</section>`;
}

function Judge({ act }) {
  const buttons = [
    ["back", null, "←", "quiet"],
    ["confirm", "check", "C", "primary"],
    ["correct", "edit", "E", ""],
    ["reject", "trash", "R", "danger"],
    ["skip", null, "S →", "quiet"],
  ];
  return html`<div class="review-buttons">${buttons.map(([name, icon, key, kind]) => html`<${Button} key=${name} icon=${icon} kind=${kind} disabled=${!act[name]} onClick=${act[name]}>${t(`review.${name}`)} <kbd aria-hidden="true">${key}</kbd><//>`)}</div>`;
}

function Edit({ item, exact, error, queue, onClose }) {
  const [text, setText] = useState(null);
  const box = useRef(null);
  const save = useAction((content) => queue.correct(item.id, content));
  useEffect(() => { if (exact) box.current?.focus(); }, [Boolean(exact)]);
  if (error && !exact) return html`<${ErrorNotice} error=${error} />`;
  if (!exact) return html`<${Busy} />`;
  const content = text ?? exact.content;
  const isSame = content === exact.content || !content.trim();
  const submit = (event) => {
    event?.preventDefault();
    if (!isSame) save.start(content);
  };
  const onKey = (event) => {
    if (event.key === "Escape") onClose();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return html`<form class="stack tight" onSubmit=${submit}>
    <textarea class="area review-edit" ref=${box} rows="6" aria-label=${t("review.edit")} value=${content} onInput=${(event) => setText(event.target.value)} onKeyDown=${onKey} />
    ${save.error && html`<${ErrorNotice} error=${save.error} />`}
    <div class="row"><button type="submit" class="button primary" disabled=${isSame || save.busy}>${t("review.save")}</button><${Button} onClick=${onClose}>${t("common.cancel")}<//><span class="keys"><span><kbd>Ctrl Enter</kbd> ${t("review.key_save")}</span><span><kbd>Esc</kbd> ${t("review.key_cancel")}</span></span></div>
  </form>`;
}

function Done({ queue }) {
  const skipped = queue.items.findIndex(isOpen);
  return html`<${Empty} icon="check" title=${skipped < 0 ? t("review.done") : t("review.end")}>
    <p>${t("review.done_hint", { n: queue.done })}</p>
    <div class="row review-after"><${Button} icon="left" onClick=${() => queue.moveTo(queue.items.length - 1)}>${t("review.back")}<//>${skipped >= 0 && html`<${Button} kind="primary" onClick=${() => queue.moveTo(skipped)}>${t("review.to_skipped")}<//>`}</div>
  <//>`;
}

// On wide screens: what comes before and after.
function List({ queue }) {
  const from = Math.max(0, queue.place - BEFORE);
  const shown = queue.items.slice(from, queue.place + AFTER);
  return html`<nav class="card review-list" aria-label=${t("review.list")}><h2>${t("review.list")}</h2><ol>${shown.map((item, offset) => html`<li key=${item.id}><button type="button" aria-current=${from + offset === queue.place ? "true" : undefined} onClick=${() => queue.moveTo(from + offset)}><span class="number faint">${from + offset + 1}</span><span class="grow cut">${item.memory.content}</span>${item.state !== "waiting" && html`<${Chip} kind=${{ confirmed: "good", corrected: "good", rejected: "danger" }[item.state] ?? ""}>${t(`review.state_${item.state}`)}<//>`}</button></li>`)}</ol></nav>`;
}
