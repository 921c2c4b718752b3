// What is selected on the map: how many of which type, the first of them, and what to do with them.

import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { number, t } from "../i18n.js";
import { address, go } from "../router.js";
import { ExportDialog, ForgetDialog, TagDialog } from "../ui/bulk.js";
import { Busy, Button, ErrorNotice, TypeChip, useAction } from "../ui/widgets.js";
import { PointText } from "./stage.js";

const FIRST = 20; // memories that are listed at once
const MOST_LISTED = 1000; // memories that Browse gets
const DIALOGS = { forget: ForgetDialog, tag: TagDialog, export: ExportDialog };

// `selection`: {indexes, title}. The ids of the memories are read when something is done with them.
export function Selection({ selection, map, reader, onClear }) {
  const { indexes, title } = selection;
  const [shown, setShown] = useState({ dialog: "", ids: [] });
  const start = useAction(async (dialog) => {
    const ids = await reader.ids(indexes);
    if (dialog === "browse") go(address("browse"), { state: { ids: ids.slice(0, MOST_LISTED), of: ids.length } });
    else setShown({ dialog, ids });
  });
  const close = () => setShown({ dialog: "", ids: [] });
  const done = () => {
    close();
    if (shown.dialog === "forget") onClear();
  };
  const Shown = DIALOGS[shown.dialog];
  const action = (name, icon, kind = "") => html`<${Button} icon=${icon} kind=${kind} disabled=${start.busy} onClick=${() => start.start(name)}>${t(`map.${name}`)}<//>`;
  return html`<section class="card map-selection" aria-label=${t("map.selection")}>
    <div class="map-head"><h2 class="grow">${title ?? t("map.selected", { n: indexes.length })}</h2><${Button} kind="quiet" icon="close" label=${t("map.clear")} onClick=${onClear} /></div>
    ${title && html`<p class="soft">${t("map.memories", { n: indexes.length })}</p>`}
    <${Types} indexes=${indexes} map=${map} />
    <div class="map-actions">${action("forget", "trash", "danger")}${action("tag", "tag")}${action("export", "download")}${action("browse", "browse")}</div>
    ${start.error && html`<${ErrorNotice} error=${start.error} />`}
    <${Listed} key=${indexes} indexes=${indexes} reader=${reader} />
    ${Shown && html`<${Shown} ids=${shown.ids} onClose=${close} onDone=${done} />`}
  </section>`;
}

function Types({ indexes, map }) {
  const { types } = map.info.fields;
  const counts = new Array(types.length).fill(0);
  for (const index of indexes) counts[map.points.type[index]]++;
  return html`<ul class="row">${types.map((type, code) => counts[code] > 0 && html`<li key=${type} class="row tight"><${TypeChip} type=${type} /> <span class="number">${number(counts[code])}</span></li>`)}</ul>`;
}

function Listed({ indexes, reader }) {
  const [state, setState] = useState({ found: [], error: null, busy: false });
  const more = async () => {
    setState((now) => ({ ...now, busy: true, error: null }));
    try {
      const next = await reader.some(indexes.slice(state.found.length, state.found.length + FIRST));
      setState((now) => ({ found: [...now.found, ...next], error: null, busy: false }));
    } catch (error) {
      setState((now) => ({ ...now, error, busy: false }));
    }
  };
  useEffect(() => { more(); }, []);
  const rest = indexes.length - state.found.length;
  return html`<ul class="map-list">${state.found.map((found) => html`<li key=${found.index}><${PointText} found=${found} isLinked=${true} /></li>`)}</ul>
    ${state.error && html`<${ErrorNotice} error=${state.error} onRetry=${more} />`}
    ${state.busy ? html`<${Busy} />` : rest > 0 && !state.error && html`<${Button} kind="small" onClick=${more}>${t("map.more", { n: rest })}<//>`}`;
}
