// Notes: texts under names and aliases. The list is beside the note that is read.

import { html, useEffect, useMemo, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { t } from "../i18n.js";
import { address, go } from "../router.js";
import { Icon } from "../ui/icons.js";
import { useCall, useDebounced, useReloadOnChange } from "../ui/state.js";
import { Button, Busy, Chip, Empty, ErrorNotice, Head, Tabs, When } from "../ui/widgets.js";
import { AddNote, Note } from "./note.js";

const CALL = 1000; // notes of one call
const MOST = 10000; // that the list holds; a search finds the others
const PAGE = 100; // that are drawn at once
const IS_NOTE = { seq: { $exists: true } };

export default function View({ place }) {
  const { kind = "note" } = place.query;
  const notes = useAllNotes(kind);
  const [search, setSearch] = useState(place.state.search ?? "");
  useEffect(() => setSearch(place.state.search ?? ""), [place]);
  const [adding, setAdding] = useState(false);
  const id = place.argument;
  const toNote = (chosen, options) => go(address("notes", chosen, place.query), { state: { search }, ...options });
  const typed = (text) => {
    setSearch(text);
    go(address("notes", id, place.query), { replace: true, state: { search: text } });
  };
  const changeKind = (name) => go(address("notes", "", { kind: name === "note" ? "" : name }), { replace: true, state: { search } });
  const added = (note) => {
    setAdding(false);
    notes.reload();
    toNote(note.id);
  };
  return html`<${Head} title=${t("notes.title")} lead=${t("notes.lead")}><${Tabs} label=${t("notes.kind")} value=${kind} choices=${[["note", t("notes.kind_note")], ["archive", t("notes.kind_archive")]]} onChange=${changeKind} /><${Button} kind="primary" icon="teach" onClick=${() => setAdding(true)}>${t("notes.add")}<//><//>
    <div class=${`beside ${id ? "reading" : ""}`}>
      <div class="stack tight">
        <div class="search-box"><${Icon} name="browse" /><input class="input" type="search" aria-label=${t("notes.search")} placeholder=${t("notes.search")} value=${search} onInput=${(event) => typed(event.target.value)} /></div>
        <${List} notes=${notes} search=${search} kind=${kind} chosen=${id} onChoose=${toNote} />
      </div>
      ${id ? html`<${Note} key=${id} id=${id} onChange=${notes.reload} onGone=${() => { notes.reload(); toNote("", { replace: true }); }} />` : html`<div class="card beside-empty"><${Empty} icon="notes" title=${t("notes.choose")}>${t("notes.choose_hint")}<//></div>`}
    </div>
    ${adding && html`<${AddNote} kind=${kind} onClose=${() => setAdding(false)} onDone=${added} />`}`;
}

// All notes of a kind, the newest first: names and aliases are looked through here.
function useAllNotes(kind) {
  const [found, setFound] = useState({ kind, notes: null, total: 0, error: null });
  const [round, setRound] = useState(0);
  const reload = () => setRound((now) => now + 1);
  useReloadOnChange(reload);
  useEffect(() => {
    const ending = new AbortController();
    allNotes(kind, ending.signal).then(
      (read) => setFound({ kind, error: null, ...read }),
      (error) => error.name !== "AbortError" && setFound((now) => ({ ...now, kind, error })),
    );
    return () => ending.abort();
  }, [kind, round]);
  return { ...found, notes: found.kind === kind ? found.notes : null, reload };
}

async function allNotes(kind, signal) {
  const notes = [];
  for (;;) {
    const after = notes.length ? { after: notes.at(-1).seq } : {};
    const page = await call("read_notes", { kind, limit: CALL, ...after }, { signal });
    notes.push(...page.notes);
    if (page.notes.length < CALL || notes.length >= MOST) return { notes: notes.reverse(), total: page.total };
  }
}

// Names and aliases that have the text come first, then notes whose content matches it.
function useMatches(notes, search, kind) {
  const words = useDebounced(search.trim());
  const found = useCall(words ? "search_memories" : null, { query: words, metadata: { ...IS_NOTE, kind }, limit: 30, count_use: false });
  return useMemo(() => {
    if (!words) return { matches: notes, warnings: [] };
    const wanted = fold(words);
    const named = notes.filter((note) => [note.name, ...note.aliases].some((name) => fold(name).includes(wanted)));
    const known = new Set(named.map((note) => note.id));
    const hits = found.isCurrent && found.answer ? found.answer.results : [];
    const byText = hits.filter((hit) => !known.has(hit.id)).map((hit) => ({ ...hit, aliases: hit.metadata.aliases ?? [], citation: hit.passage ?? hit.content }));
    return { matches: [...named, ...byText], error: found.error, busy: found.busy };
  }, [notes, words, found.answer, found.isCurrent, found.error, found.busy]);
}

// As notes compare names: regardless of case and accents.
const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

function List({ notes, search, kind, chosen, onChoose }) {
  const [most, setMost] = useState(PAGE);
  const { matches, error, busy } = useMatches(notes.notes ?? [], search, kind);
  if (notes.error) return html`<${ErrorNotice} error=${notes.error} onRetry=${notes.reload} />`;
  if (!notes.notes) return html`<${Busy} />`;
  if (!matches.length && busy) return html`<${Busy} />`;
  const nothing = search.trim() ? html`<${Empty} icon="browse" title=${t("notes.none_match")} />` : html`<${Empty} icon="notes" title=${t(`notes.none_${kind}`)}>${t(`notes.none_${kind}_hint`)}<//>`;
  return html`${error && html`<${ErrorNotice} error=${error} />`}
    <p class="small faint" role="status">${search.trim() ? t("notes.matches", { n: matches.length }) : t("notes.count", { n: notes.total })}</p>
    ${matches.length ? html`<ul class="card note-list">${matches.slice(0, most).map((note) => html`<${NoteRow} key=${note.id} note=${note} chosen=${note.id === chosen} onChoose=${onChoose} />`)}</ul>` : html`<div class="card">${nothing}</div>`}
    ${matches.length > most && html`<${Button} onClick=${() => setMost(most + PAGE)}>${t("common.more")}<//>`}`;
}

function NoteRow({ note, chosen, onChoose }) {
  const open = (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    onChoose(note.id);
  };
  return html`<li><a class="note-row" href=${address("notes", note.id)} aria-current=${chosen ? "true" : undefined} onClick=${open}>
    <span class="spread"><strong class="cut grow">${note.name}</strong><span class="small faint"><${When} time=${note.updated_at ?? note.created_at} /></span></span>
    <span class="note-begin">${(note.citation ?? "").slice(0, 200)}</span>
    ${note.aliases.length > 0 && html`<span class="row tight">${note.aliases.slice(0, 5).map((alias) => html`<${Chip} key=${alias} kind="outline">${alias}<//>`)}${note.aliases.length > 5 && html`<span class="small faint">+${note.aliases.length - 5}</span>`}</span>`}
  </a></li>`;
}
