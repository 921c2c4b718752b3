// A session as a conversation: messages by role and day, archives where they belong, and where the
// window begins.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { clockTime, day, exact, t } from "../i18n.js";
import { address } from "../router.js";
import { Icon } from "./icons.js";
import { useCall, useReloadOnChange } from "./state.js";
import { Button, Chip, ErrorNotice, useAction } from "./widgets.js";

const PAGE = 50;
const LONG = 1500; // characters of a message that are shown at first

// What was read of a session so far: the newest page, kept current, and older ones on request.
export function useTranscript(sessionId) {
  const latest = useCall("transcript", { session_id: sessionId, limit: PAGE });
  const [read, setRead] = useState({ items: [], before: null });
  useReloadOnChange(latest.reload);
  useEffect(() => {
    if (latest.answer) setRead((now) => withLatest(now, latest.answer));
  }, [latest.answer]);
  const older = useAction(async () => {
    const found = await call("transcript", { session_id: sessionId, limit: PAGE, before: read.before });
    setRead((now) => ({ items: [...found.items, ...without(now.items, found.items)], before: found.before }));
  });
  return { ...latest, ...read, older };
}

const keyOf = (item) => (item.item === "archive" ? `archive ${item.upto} ${item.name}` : item.id);
const orderOf = (item) => (item.item === "archive" ? item.upto : item.order);

function without(items, others) {
  const known = new Set(others.map(keyOf));
  return items.filter((item) => !known.has(keyOf(item)));
}

// The newest page replaces what was read of the same part of the session; older items stay. What the
// oldest message of the page is not, no older one is either: part of the window.
function withLatest(read, page) {
  const oldest = page.items.find((item) => item.item === "message");
  if (!oldest) return { items: page.items, before: page.before };
  const older = without(read.items, page.items).filter((item) => orderOf(item) < oldest.order);
  const kept = older.map((item) => ({
    ...item,
    in_window: Boolean(item.in_window && oldest.in_window),
    archived: Boolean(item.archived || oldest.archived),
  }));
  return { items: [...kept, ...page.items], before: kept.length ? read.before : page.before };
}

export function Conversation({ read }) {
  const box = useRef(null);
  const height = useRef(0);
  // What stands below the older messages stays where it is on the screen when they appear above it.
  useLayoutEffect(() => {
    if (height.current) scrollBy(0, box.current.scrollHeight - height.current);
    height.current = 0;
  }, [read.items]);
  const showOlder = () => {
    height.current = box.current.scrollHeight;
    read.older.start();
  };
  return html`<div class="transcript" ref=${box}>
    ${read.before !== null && html`<div class="older"><${Button} icon="clock" disabled=${read.older.busy} onClick=${showOlder}>${t("sessions.older")}<//></div>`}
    ${read.older.error && html`<${ErrorNotice} error=${read.older.error} />`}
    <ol class="messages">${withMarks(read.items)}</ol>
  </div>`;
}

// The items with what stands between them: days, and the beginning of the window.
function withMarks(items) {
  const rows = [];
  let lastDay = "";
  let windowSeen = false;
  const inWindow = items.filter((item) => item.in_window).length;
  for (const item of items) {
    const today = item.item === "message" ? day(item.at) : lastDay;
    if (today !== lastDay) rows.push(html`<li class="day-mark" key=${`day ${item.order}`}><span>${today}</span></li>`);
    lastDay = today;
    if (item.in_window && !windowSeen) {
      windowSeen = true;
      rows.push(html`<li class="window-mark" key="window"><${Icon} name="info" /><span>${t("sessions.window_from_here", { n: inWindow })}</span></li>`);
    }
    const shown = item.item === "archive" ? html`<${Archive} item=${item} />` : html`<${Message} item=${item} />`;
    rows.push(html`<${Row} key=${keyOf(item)}>${shown}<//>`);
  }
  return rows;
}

const Row = ({ children }) => children;

function Message({ item }) {
  const [open, setOpen] = useState(false);
  const long = item.text.length > LONG;
  const text = long && !open ? `${item.text.slice(0, LONG)} …` : item.text;
  const who = item.speaker ?? item.tool ?? t(`sessions.role_${item.role}`);
  const marks = [...(item.tools_used ?? []), ...(item.role === "tool" || !item.tool ? [] : [item.tool])];
  return html`<li class=${`message ${item.role} ${item.archived ? "archived" : ""}`} data-id=${item.id}>
    <div class="message-head"><strong>${who}</strong>${(item.speaker || item.role === "tool") && html`<span class="faint">${t(`sessions.role_${item.role}`)}</span>`}${item.source && html`<span class="faint">${item.source}</span>`}<a href=${address("memory", item.id)} title=${exact(item.at)} aria-label=${t("sessions.open_message", { time: exact(item.at) })}><time datetime=${item.at}>${clockTime(item.at)}</time></a></div>
    <div class=${`text ${item.role === "tool" ? "mono" : ""}`}>${text}</div>
    ${long && html`<div><${Button} kind="quiet small" onClick=${() => setOpen(!open)}>${open ? t("sessions.show_less") : t("sessions.show_all")}<//></div>`}
    ${marks.length > 0 && html`<div class="row tight">${marks.map((tool) => html`<${Chip} key=${tool} kind="outline">${tool}<//>`)}</div>`}
  </li>`;
}

function Archive({ item }) {
  return html`<li class="archive-mark"><details>
    <summary><${Icon} name="backups" /><span class="grow"><strong>${item.name}</strong> <span class="soft">${t("sessions.archive_of", { n: item.messages })}</span></span>${item.at && html`<span class="small faint">${exact(item.at)}</span>`}</summary>
    ${item.text === null ? html`<p class="soft">${t("sessions.archive_forgotten")}</p>` : html`<div class="text">${item.text}</div><p><a href=${address("memory", item.id)}>${t("sessions.open_archive")}</a></p>`}
  </details></li>`;
}
