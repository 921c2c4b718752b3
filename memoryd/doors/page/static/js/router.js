// Addresses: /page/VIEW/ARGUMENT?filters. Views change the filters in the address bar; a search text is
// kept in the history entry instead, so that no address shows it.

import { useEffect, useState } from "../vendor/preact-htm.js";

const BASE = "/page/";
const watchers = new Set();

export function place() {
  const [view = "", ...rest] = location.pathname.slice(BASE.length).split("/").map(decoded);
  return {
    view: view || "overview",
    argument: rest.join("/").replace(DOTS, (whole) => (whole.startsWith(SIGN) ? whole.slice(1) : whole)),
    query: Object.fromEntries(new URLSearchParams(location.search)),
    state: history.state ?? {},
  };
}

export function address(view, argument = "", query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null && value !== false);
  const search = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  const path = argument ? `${view}/${encodeURIComponent(argument.replace(DOTS, SIGN + "$&"))}` : view;
  return BASE + path + (search ? `?${search}` : "");
}

// A browser takes "." and ".." for folders of an address, however they are encoded.
const SIGN = "~";
const DOTS = /^~*\.{1,2}$/;

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // somebody typed a "%"
  }
}

// Go to an address made by `address`; `replace` stays on the same history entry.
export function go(to, { replace = false, state = {} } = {}) {
  if (replace) history.replaceState(state, "", to);
  else history.pushState(state, "", to);
  announce();
  if (!replace) scrollTo(0, 0);
}

export function usePlace() {
  const [now, setNow] = useState(place);
  useEffect(() => {
    const update = () => setNow(place());
    watchers.add(update);
    return () => watchers.delete(update);
  }, []);
  return now;
}

function announce() {
  for (const update of watchers) update();
}

addEventListener("popstate", announce);

// Links of the page itself change the view without loading anything.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const modified = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
  if (!link || modified || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || !to.pathname.startsWith(BASE) || to.pathname.startsWith(`${BASE}static/`)) return;
  event.preventDefault();
  go(to.pathname + to.search);
});
