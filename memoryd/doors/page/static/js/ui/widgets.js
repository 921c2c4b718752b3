// Parts that every view uses. Everything is rendered as text: no function here makes HTML of a string.

import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact-htm.js";
import { exact, relative, t } from "../i18n.js";
import { Icon } from "./icons.js";
import { settle, useToasts } from "./state.js";

// `tab`: what the browser shows and keeps in its history, where the title is a text of a memory.
export function Head({ title, tab = title, lead, children }) {
  useEffect(() => {
    document.title = `${tab} – memoryd`;
  }, [tab]);
  return html`<header class="view-head"><div><h1 tabindex="-1">${title}</h1>${lead && html`<p class="lead">${lead}</p>`}</div><div class="row">${children}</div></header>`;
}

export function Button({ icon, kind = "", label, children, ...rest }) {
  const shape = icon && !children ? "icon" : "";
  return html`<button type="button" class=${`button ${kind} ${shape}`} aria-label=${label} title=${label} ...${rest}>${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

export function Chip({ kind = "", children, onRemove, removeLabel }) {
  return html`<span class=${`chip ${kind}`}><span>${children}</span>${onRemove && html`<button type="button" aria-label=${removeLabel} onClick=${onRemove}>×</button>`}</span>`;
}

export function TypeChip({ type }) {
  return html`<${Chip} kind=${type}>${t(`types.${type}`)}<//>`;
}

export function When({ time }) {
  return time ? html`<time datetime=${String(time)} title=${exact(time)}>${relative(time)}</time>` : null;
}

export function Busy({ text }) {
  return html`<p class="busy" role="status">${text ?? t("common.loading")}</p>`;
}

export function Empty({ icon = "info", title, children }) {
  return html`<div class="empty"><${Icon} name=${icon} /><strong>${title}</strong><div>${children}</div></div>`;
}

export function Notice({ kind = "", icon = "info", children }) {
  return html`<div class=${`notice ${kind}`} role=${kind === "error" ? "alert" : "status"}><${Icon} name=${icon} /><div>${children}</div></div>`;
}

export function ErrorNotice({ error, onRetry }) {
  const sentence = error.message || t("common.unreachable");
  const hint = error.message ? error.hint : t("common.unreachable_hint");
  return html`<${Notice} kind="error" icon="warning">${sentence}${hint && html`<span class="hint">${hint}</span>`}${onRetry && html`<div><${Button} kind="small" onClick=${onRetry}>${t("common.retry")}<//></div>`}<//>`;
}

// Shows the answer of `useCall` by its child function, its first loading, and its error.
export function Answer({ of, children }) {
  if (of.error && !of.answer) return html`<${ErrorNotice} error=${of.error} onRetry=${of.reload} />`;
  if (!of.answer) return html`<${Busy} />`;
  return html`${of.error && html`<${ErrorNotice} error=${of.error} onRetry=${of.reload} />`}${children(of.answer)}`;
}

let fields = 0;

// A label and its control, which is the first child.
export function Field({ label, hint, children }) {
  const id = useMemo(() => `field-${(fields += 1)}`, []);
  const control = Array.isArray(children) ? children[0] : children;
  control.props.id = id;
  return html`<div class="field"><label for=${id}>${label}</label>${children}${hint && html`<span class="small faint">${hint}</span>`}</div>`;
}

// A choice of few: one is pressed.
export function Tabs({ label, value, choices, onChange }) {
  return html`<div class="tabs" role="group" aria-label=${label}>${choices.map(([key, text]) => html`<button type="button" key=${key} aria-pressed=${String(key === value)} onClick=${() => onChange(key)}>${text}</button>`)}</div>`;
}

export function Select({ label, value, choices, onChange, ...rest }) {
  return html`<select class="select" aria-label=${label} value=${value} onChange=${(event) => onChange(event.target.value)} ...${rest}>${choices.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}</select>`;
}

// A dialog of the browser itself: it keeps the focus inside, and Escape closes it. `foot` has its
// buttons; `onSubmit` runs on Enter.
export function Dialog({ title, onClose, onSubmit, wide = false, foot, children }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    onSubmit?.();
  };
  return html`<dialog class=${`dialog ${wide ? "wide" : ""}`} ref=${box} onClose=${onClose} aria-labelledby="dialog-title"><form class="dialog-form" onSubmit=${submit}><div class="dialog-head"><h2 id="dialog-title">${title}</h2><${Button} icon="close" kind="quiet" label=${t("common.close")} onClick=${() => box.current.close()} /></div><div class="dialog-body">${children}</div><div class="dialog-foot">${foot}</div></form></dialog>`;
}

// Asks before something that cannot be undone.
export function Confirm({ title, children, action, danger = true, busy = false, onConfirm, onClose }) {
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class=${`button ${danger ? "danger" : "primary"}`} disabled=${busy}>${action}</button>`;
  return html`<${Dialog} title=${title} onClose=${onClose} onSubmit=${onConfirm} foot=${foot}>${children}<//>`;
}

// Runs an action, with its error beside the button that started it.
export function useAction(run) {
  const [state, setState] = useState({ busy: false, error: null });
  const start = async (...args) => {
    setState({ busy: true, error: null });
    try {
      const done = await run(...args);
      setState({ busy: false, error: null });
      return done;
    } catch (error) {
      setState({ busy: false, error });
      return undefined;
    }
  };
  return { ...state, start };
}

export function Meter({ share, label }) {
  const width = Math.max(0, Math.min(1, share)) * 44;
  return html`<span class="meter" title=${label}><svg viewBox="0 0 44 6" aria-hidden="true"><rect class="fill-line" width="44" height="6" rx="3" /><rect class="fill-accent" width=${width} height="6" rx="3" /></svg><span class="hidden-text">${label}</span><span>${share.toFixed(2)}</span></span>`;
}

export function Toasts() {
  const list = useToasts();
  return html`<div class="toasts" role="status" aria-live="polite">${list.map((one) => html`<div class="toast" key=${one.id}><span class="grow">${one.text}</span>${one.undo && html`<${Button} kind="small" onClick=${() => settle(one, { undone: true })}>${t("common.undo")}<//>`}</div>`)}</div>`;
}

export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

// Saves a text as a file of the reader.
export function download(name, text, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
