// All memories in two dimensions: what is alike lies together.

import { html, useCallback, useEffect, useMemo, useRef, useState } from "../../vendor/preact-htm.js";
import { number, percent, t } from "../i18n.js";
import { coloursOf, COLOURINGS, grouped } from "../map/colours.js";
import { Reader, useMap } from "../map/data.js";
import { HIDDEN } from "../map/draw.js";
import { Selection } from "../map/selection.js";
import { Stage } from "../map/stage.js";
import { address, go } from "../router.js";
import { useShown } from "../ui/memory.js";
import { toast } from "../ui/state.js";
import { Busy, Button, Empty, ErrorNotice, Head, Tabs } from "../ui/widgets.js";

const BETWEEN = "|"; // separates the groups in the address

export default function View({ place }) {
  const held = useRef(false); // a newer map would change what is selected, and show what waits to be forgotten
  const { map, error, progress, updating, ask } = useMap(() => held.current);
  const title = t("map.title");
  const head = html`<${Head} title=${title} lead=${map ? told(map.info) : t("map.lead")}>${updating && html`<${Busy} text=${t("map.updating")} />`}${map?.points.n > 0 && html`<${Button} icon="renew" onClick=${() => ask(true)}>${t("map.renew")}<//>`}<//>`;
  if (!map) return html`${head}${error ? html`<${ErrorNotice} error=${error} onRetry=${() => ask()} />` : html`<${Computing} progress=${progress} />`}`;
  if (!map.points.n) return html`${head}<${Empty} icon="map" title=${t("map.empty")}>${t(map.info.left_out ? "map.empty_waiting" : "map.empty_how", { n: map.info.left_out })}<//>`;
  return html`${head}${error && html`<${ErrorNotice} error=${error} onRetry=${() => ask()} />`}<${Explorer} map=${map} place=${place} ask=${ask} held=${held} />`;
}

function told(info) {
  const waiting = info.left_out > 0 ? ` ${t("map.left_out", { n: info.left_out })}` : "";
  return t("map.memories", { n: info.count }) + (info.count === 1 ? "." : t("map.alike")) + waiting;
}

function Computing({ progress }) {
  if (!progress) return html`<${Busy} />`;
  return html`<div class="card map-computing" role="status"><h2>${t("map.computing")}</h2><progress max="1" value=${progress.share} aria-label=${t("map.computing")} /><p class="soft">${percent(progress.share)}</p></div>`;
}

function Explorer({ map, place, ask, held }) {
  const by = COLOURINGS.includes(place.query.colour) ? place.query.colour : "type";
  const only = useMemo(() => new Set((place.query.only ?? "").split(BETWEEN).filter(Boolean)), [place.query.only]);
  const setFilter = (colour, keys) => go(address("map", "", { colour, only: [...keys].join(BETWEEN) }), { replace: true });
  const grouping = useMemo(() => grouped(map.points, map.info.fields, by), [map, by]);
  const reader = useMemo(() => new Reader(map.info.revision), [map]);
  const gone = useGone(reader);
  const of = useMemo(() => masked(grouping, only, gone), [grouping, only, gone]);
  const [selection, setSelection] = useState(null);
  const [isLasso, setLasso] = useState(false);
  held.current = Boolean(selection) || gone.length > 0;
  const control = useRef(null);
  useEffect(() => setSelection(null), [map]);
  const scene = useMemo(() => ({ map, of, colours: () => coloursOf(grouping), selected: flagged(map, selection), reader }), [map, of, grouping, selection, reader]);
  const onLasso = useCallback((indexes) => {
    setLasso(false);
    setSelection(indexes.length ? { indexes } : null);
  }, []);
  const onOpen = useCallback((index) => open(reader, index, ask), [reader]);
  const onLabel = (label) => {
    const indexes = membersOf(map, label);
    control.current.show(indexes);
    setSelection({ indexes, title: map.info.labels[label].text });
  };
  return html`<div class="map-view">
    <${Stage} scene=${scene} isLasso=${isLasso} setLasso=${setLasso} onLasso=${onLasso} onOpen=${onOpen} onLabel=${onLabel} onEscape=${() => { setLasso(false); setSelection(null); }} control=${control} />
    <div class="map-panel">
      ${selection && html`<${Selection} selection=${selection} map=${map} reader=${reader} onClear=${() => setSelection(null)} />`}
      <${Legend} grouping=${grouping} by=${by} only=${only} setFilter=${setFilter} />
      ${!selection && html`<${Clusters} labels=${map.info.labels} onLabel=${onLabel} />`}
      <${Keys} />
    </div>
  </div>`;
}

// The points of memories that were just forgotten here. Only those that were selected can be among
// them, and of those the ids are known.
function useGone(reader) {
  const isShown = useShown();
  const gone = [...reader.indexes].filter(([id]) => !isShown({ id })).map(([, index]) => index);
  return useMemo(() => gone, [gone.join()]);
}

function masked({ of, groups }, only, gone) {
  const isHidden = groups.map(({ key }) => only.size > 0 && !only.has(key));
  const shown = of.slice();
  for (let i = 0; i < shown.length; i++) if (isHidden[shown[i]]) shown[i] = HIDDEN;
  for (const index of gone) shown[index] = HIDDEN;
  return shown;
}

function flagged(map, selection) {
  if (!selection) return null;
  const flags = new Uint8Array(map.points.n);
  for (const index of selection.indexes) flags[index] = 1;
  return flags;
}

function membersOf({ points }, label) {
  const found = [];
  for (let i = 0; i < points.n; i++) if (points.label[i] === label) found.push(i);
  return found;
}

async function open(reader, index, ask) {
  try {
    const { memory_id: id } = await reader.one(index);
    if (id) go(address("memory", id));
    else toast(t("map.gone"));
  } catch (error) {
    toast(error.message || t("common.unreachable"));
    if (error.code === "map_changed") ask();
  }
}

// A click shows only that group; more clicks add and remove others.
function Legend({ grouping, by, only, setFilter }) {
  const colours = useThemed(() => coloursOf(grouping));
  const toggle = (key) => {
    const next = new Set(only);
    if (!next.delete(key)) next.add(key);
    setFilter(by, next.size === grouping.groups.length ? [] : next);
  };
  return html`<section class="card" aria-label=${t("map.colours")}>
    <h2>${t("map.colour_by")}</h2>
    <${Tabs} label=${t("map.colour_by")} value=${by} choices=${COLOURINGS.map((name) => [name, t(`map.by_${name}`)])} onChange=${(name) => setFilter(name, [])} />
    <ul class="map-legend">${grouping.groups.map(({ key, text, count }, place) => html`<li key=${key}><button type="button" aria-pressed=${String(only.has(key))} class=${only.size && !only.has(key) ? "off" : ""} onClick=${() => toggle(key)}><i style=${{ background: colours[place] }} /><span class="grow cut">${text}</span><span class="number faint">${number(count)}</span></button></li>`)}</ul>
    ${only.size > 0 && html`<${Button} kind="small" onClick=${() => setFilter(by, [])}>${t("map.show_all")}<//>`}
  </section>`;
}

// A value that depends on the theme.
function useThemed(compute) {
  const [, setRound] = useState(0);
  useEffect(() => {
    const update = () => setRound((now) => now + 1);
    addEventListener("theme", update);
    return () => removeEventListener("theme", update);
  }, []);
  return compute();
}

function Clusters({ labels, onLabel }) {
  if (!labels.length) return null;
  const order = [...labels.keys()].sort((a, b) => labels[b].count - labels[a].count);
  return html`<section class="card" aria-label=${t("map.clusters")}><h2>${t("map.clusters")}</h2><p class="small soft">${t("map.clusters_hint")}</p><ul class="map-legend">${order.map((index) => html`<li key=${index}><button type="button" onClick=${() => onLabel(index)}><span class="grow cut">${labels[index].text}</span><span class="number faint">${number(labels[index].count)}</span></button></li>`)}</ul></section>`;
}

function Keys() {
  const rows = [["← → ↑ ↓", "pan"], ["+ −", "zoom"], ["0", "all"], ["Enter", "open"], ["Esc", "clear"]];
  return html`<section class="map-keys" id="map-keys"><p class="small faint">${t("map.mouse")}</p><div class="keys">${rows.map(([key, name]) => html`<span key=${name}><kbd>${key}</kbd> ${t(`map.key_${name}`)}</span>`)}</div></section>`;
}
