// What is selected on the map: how many of which type, the first of them, and what to do with them.

import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { number, t } from "../i18n.js";
import { address, go } from "../router.js";
import { forgetSoon } from "../ui/memory.js";
import { toast } from "../ui/state.js";
import { Busy, Button, Confirm, Dialog, download, ErrorNotice, Field, Select, TypeChip, useAction } from "../ui/widgets.js";
import { PointText } from "./stage.js";

const FIRST = 20; // memories that are listed at once
const AT_A_TIME = 1000; // memories of one call that changes or exports some
const ASK_FROM = 100; // memories from which forgetting asks first
const FORMATS = ["md", "jsonl", "json", "claude-md"];

// `selection`: {indexes, title}; `hide(indexes)` takes points off the map and returns a function that
// brings them back.
export function Selection({ selection, map, reader, hide, onClear, onChanged }) {
  const { indexes, title } = selection;
  const [dialog, setDialog] = useState("");
  const ids = () => reader.ids(indexes);
  const forget = useAction(async () => {
    const chosen = await ids();
    const show = hide(indexes);
    onClear();
    forgetSoon(chosen, () => bringBackIfUndone(reader, indexes[0], show));
  });
  const browse = useAction(async () => go(address("browse"), { state: { ids: (await ids()).slice(0, AT_A_TIME) } }));
  const onForget = () => (indexes.length > ASK_FROM ? setDialog("forget") : forget.start());
  return html`<section class="card map-selection" aria-label=${t("map.selection")}>
    <div class="spread"><h2>${title ?? t("map.selected", { n: indexes.length })}</h2><${Button} kind="quiet" icon="close" label=${t("map.clear")} onClick=${onClear} /></div>
    ${title && html`<p class="soft">${t("map.memories", { n: indexes.length })}</p>`}
    <${Types} indexes=${indexes} map=${map} />
    <div class="row">
      <${Button} kind="danger" icon="trash" disabled=${forget.busy} onClick=${onForget}>${t("map.forget")}<//>
      <${Button} icon="tag" onClick=${() => setDialog("tag")}>${t("map.tag")}<//>
      <${Button} icon="download" onClick=${() => setDialog("export")}>${t("map.export")}<//>
      <${Button} icon="browse" disabled=${browse.busy} onClick=${browse.start}>${t("map.browse")}<//>
    </div>
    ${(forget.error || browse.error) && html`<${ErrorNotice} error=${forget.error ?? browse.error} />`}
    <${Listed} key=${indexes} indexes=${indexes} reader=${reader} />
    ${dialog === "forget" && html`<${Confirm} title=${t("map.forget_title", { n: indexes.length })} action=${t("map.forget")} onClose=${() => setDialog("")} onConfirm=${() => { setDialog(""); forget.start(); }}><${Types} indexes=${indexes} map=${map} /><p>${t("map.forget_undo")}</p><//>`}
    ${dialog === "tag" && html`<${TagDialog} ids=${ids} count=${indexes.length} onClose=${() => setDialog("")} onChanged=${onChanged} />`}
    ${dialog === "export" && html`<${ExportDialog} ids=${ids} count=${indexes.length} onClose=${() => setDialog("")} />`}
  </section>`;
}

// Called when the forgetting begins, and again when it is committed or undone: the points come back
// only if their memories are still there then.
async function bringBackIfUndone(reader, index, show) {
  show.calls = (show.calls ?? 0) + 1;
  if (show.calls < 2) return;
  const [found] = await reader.some([index]).catch(() => [{ memory_id: null }]);
  if (found.memory_id) show();
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

function TagDialog({ ids, count, onClose, onChanged }) {
  const [text, setText] = useState("");
  const tags = text.split(",").map((tag) => tag.trim()).filter(Boolean);
  const save = useAction(async () => {
    let changed = 0;
    const chosen = await ids();
    for (let from = 0; from < chosen.length; from += AT_A_TIME) {
      changed += (await call("tag_memories", { memory_ids: chosen.slice(from, from + AT_A_TIME), add: tags })).changed;
    }
    toast(t("map.tagged", { n: changed }));
    onChanged();
    onClose();
  });
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${!tags.length || save.busy}>${t("map.tag")}</button>`;
  return html`<${Dialog} title=${t("map.tag_title", { n: count })} onClose=${onClose} onSubmit=${() => tags.length && save.start()} foot=${foot}>
    <${Field} label=${t("map.tags")} hint=${t("map.tags_hint")}><input class="input" value=${text} onInput=${(event) => setText(event.target.value)} autofocus /><//>
    ${save.error && html`<${ErrorNotice} error=${save.error} />`}
  <//>`;
}

function ExportDialog({ ids, count, onClose }) {
  const [format, setFormat] = useState(FORMATS[0]);
  const save = useAction(async () => {
    const made = await call("export_selection", { memory_ids: await ids(), format });
    download(made.file_name, made.text, made.media_type);
    onClose();
  });
  const isTooMany = count > AT_A_TIME;
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${save.busy || isTooMany}>${t("map.export")}</button>`;
  return html`<${Dialog} title=${t("map.export_title", { n: count })} onClose=${onClose} onSubmit=${() => !isTooMany && save.start()} foot=${foot}>
    ${isTooMany ? html`<p>${t("map.export_most", { most: AT_A_TIME })}</p>` : html`<${Field} label=${t("map.format")}><${Select} label=${t("map.format")} value=${format} onChange=${setFormat} choices=${FORMATS.map((name) => [name, t(`map.format_${name.replace("-", "_")}`)])} /><//>`}
    ${save.error && html`<${ErrorNotice} error=${save.error} />`}
  <//>`;
}
