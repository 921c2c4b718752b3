// Starts the page: texts, theme, login, then the view that the address names.

import { html, render, useEffect, useErrorBoundary, useState } from "../vendor/preact-htm.js";
import { logIn, whenLoggedOut } from "./api.js";
import { loadStrings, t } from "./i18n.js";
import { usePlace } from "./router.js";
import { applyTheme } from "./theme.js";
import { Logo } from "./ui/icons.js";
import { Layout } from "./ui/layout.js";
import { Busy, Empty, Notice } from "./ui/widgets.js";

// Each view is a module of its own, loaded when it is first shown.
const VIEWS = new Set(["overview", "browse", "memory", "sessions", "notes", "projects", "review", "pushes", "ask", "map", "teach", "doctor", "settings"]);
const WIDE = new Set(["map"]);
const loaded = new Map();

function View() {
  const place = usePlace();
  const [, setRound] = useState(0);
  const [broken, reset] = useErrorBoundary((error) => console.error(error));
  const module = loaded.get(place.view);
  useEffect(() => {
    reset();
    if (module || !VIEWS.has(place.view)) return;
    import(`./views/${place.view}.js`).then((found) => {
      loaded.set(place.view, found);
      setRound((now) => now + 1);
    });
  }, [place.view]);
  if (!VIEWS.has(place.view)) return html`<${Empty} title=${t("common.no_such_view")} />`;
  if (broken) return html`<${Notice} kind="error" icon="warning">${t("common.broken")}<//>`;
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
