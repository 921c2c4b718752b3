// The frame around every view: navigation, language, theme.

import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { logOut } from "../api.js";
import { chooseLanguage, language, languages, t } from "../i18n.js";
import { address, usePlace } from "../router.js";
import { chooseTheme, chosenTheme, themes } from "../theme.js";
import { Icon, Logo } from "./icons.js";
import { useCall, useEvents, useReloadOnChange } from "./state.js";
import { Button, Notice, Select, Toasts } from "./widgets.js";

const SECTIONS = [
  ["look", ["overview", "browse", "ask", "map"]],
  ["kept", ["sessions", "notes", "projects"]],
  ["govern", ["review", "pushes", "teach"]],
  ["machine", ["doctor", "settings"]],
];
const PARENT = { memory: "browse" };

export function Layout({ children, wide }) {
  const { view } = usePlace();
  const [open, setOpen] = useState(false);
  const connected = useConnected();
  useEffect(() => setOpen(false), [view]);
  useEffect(() => {
    const close = (event) => event.key === "Escape" && setOpen(false);
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, []);
  return html`<div class="frame">
    <a class="skip" href="#content" onClick=${skip}>${t("nav.skip")}</a>
    <header class="topbar"><a class="brand" href=${address("overview")}><${Logo} />memoryd</a><${Button} icon=${open ? "close" : "menu"} kind="quiet menu-button" label=${t("nav.menu")} aria-expanded=${String(open)} onClick=${() => setOpen(!open)} /></header>
    ${open && html`<button class="shade" aria-label=${t("common.close")} onClick=${() => setOpen(false)} />`}
    <${Side} view=${PARENT[view] ?? view} open=${open} connected=${connected} />
    <main class="content" id="content" tabindex="-1"><div class=${`inner ${wide ? "wide" : ""}`}>${!connected && html`<${Lost} />`}${children}</div></main>
    <${Toasts} />
  </div>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

function useConnected() {
  const [connected, setConnected] = useState(true);
  useEvents((event) => {
    if (event === "connected") setConnected(true);
    if (event === "disconnected") setConnected(false);
  });
  return connected;
}

// The daemon may come back at once, so this waits a little.
function Lost() {
  const [isShown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), 1500);
    return () => clearTimeout(timer);
  }, []);
  return isShown && html`<${Notice} kind="warning" icon="warning">${t("nav.lost")} <span class="hint">${t("common.unreachable_hint")}</span><//>`;
}

function Side({ view, open, connected }) {
  const waiting = useCall("list_memories", { needs_review: true, limit: 1 });
  useReloadOnChange(waiting.reload, 5000);
  const badges = { review: waiting.answer?.total };
  return html`<aside class=${`side ${open ? "open" : ""}`}>
    <a class="brand" href=${address("overview")}><${Logo} />memoryd</a>
    <nav aria-label=${t("nav.views")}>${SECTIONS.map(([section, views]) => html`<div class="section" key=${section}>${t(`nav.${section}`)}</div>${views.map((name) => html`<a key=${name} href=${address(name)} aria-current=${name === view ? "page" : undefined}><${Icon} name=${name} />${t(`${name}.title`)}${badges[name] > 0 && html`<span class="badge alert">${badges[name]}</span>`}</a>`)}`)}</nav>
    <div class="foot">
      <span role="status">${connected ? t("nav.connected") : t("nav.disconnected")}</span>
      <div class="row"><${Select} label=${t("nav.theme")} value=${chosenTheme()} onChange=${chooseTheme} choices=${themes.map((name) => [name, t(`nav.theme_${name}`)])} /><${Select} label=${t("nav.language")} value=${language} onChange=${chooseLanguage} choices=${languages.map((name) => [name, languageName(name)])} /></div>
      <${Button} kind="quiet small" icon="exit" onClick=${logOut}>${t("nav.log_out")}<//>
    </div>
  </aside>`;
}

const languageName = (name) => new Intl.DisplayNames([name], { type: "language" }).of(name);
