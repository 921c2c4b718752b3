// Starts the page: texts, theme, login, then the view that the address names.

import { html, render, useEffect, useErrorBoundary, useState } from "../vendor/preact-htm.js";
import { CallError, logIn, whenLoggedOut } from "./api.js";
import { loadStrings, t } from "./i18n.js";
import { usePlace } from "./router.js";
import { applyTheme } from "./theme.js";
import { Logo } from "./ui/icons.js";
import { Layout } from "./ui/layout.js";
import { Busy, Empty, ErrorNotice, Notice } from "./ui/widgets.js";

// Each view is a module of its own, loaded when it is first shown.
const VIEWS = new Set(["overview", "browse", "memory", "sessions", "notes", "projects", "review", "pushes", "ask", "map", "teach", "doctor", "settings"]);
const WIDE = new Set(["map"]);
const loaded = new Map();

// A browser does not try a module again that it could not load, so each attempt has an address of its own.
async function load(view, attempt) {
  const found = await import(`./views/${view}.js${attempt ? `?attempt=${attempt}` : ""}`);
  loaded.set(view, found);
  return view;
}

function View() {
  const place = usePlace();
  const [attempt, setAttempt] = useState(0);
  const [, showLoaded] = useState(null);
  const [missing, setMissing] = useState(null);
  const [broken, reset] = useErrorBoundary((error) => console.error(error));
  const module = loaded.get(place.view);
  useEffect(() => {
    reset();
    setMissing(null);
    if (module || !VIEWS.has(place.view)) return;
    load(place.view, attempt).then(showLoaded, () => setMissing(new CallError(null, 0)));
  }, [place.view, attempt]);
  if (!VIEWS.has(place.view)) return html`<${Empty} title=${t("common.no_such_view")} />`;
  if (broken) return html`<${Notice} kind="error" icon="warning">${t("common.broken")}<//>`;
  if (missing && !module) return html`<${ErrorNotice} error=${missing} onRetry=${() => setAttempt(attempt + 1)} />`;
  if (!module) return html`<${Busy} />`;
  return html`<${module.default} key=${place.view} place=${place} />`;
}

function Page({ error }) {
  const { view } = usePlace();
  const [isOut, setOut] = useState(Boolean(error));
  useEffect(() => whenLoggedOut(() => setOut(true)), []);
  if (isOut) return html`<${LoggedOut} />`;
  return html`<${Layout} wide=${WIDE.has(view)}><${View} /><//>`;
}

function LoggedOut() {
  return html`<main class="login"><div class="card"><${Logo} /><h1>${t("login.title")}</h1><p class="soft">${t("login.how")}</p><p><code>memoryd dashboard</code></p></div></main>`;
}

applyTheme();
await loadStrings();
const isIn = await logIn().catch(() => false);
const box = document.getElementById("app");
box.replaceChildren();
render(html`<${Page} error=${!isIn} />`, box);
