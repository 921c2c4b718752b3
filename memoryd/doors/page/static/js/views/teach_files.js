// Files to import: dropped onto the page or chosen, seen before anything is written, then imported.

import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { bytes, number, shortDay, t } from "../i18n.js";
import { Bars } from "../ui/charts.js";
import { Icon } from "../ui/icons.js";
import { useEvents } from "../ui/state.js";
import { Busy, Button, Chip, ErrorNotice, Field, Notice, Select, TypeChip, useAction } from "../ui/widgets.js";

const IN_ONE_CALL = 400_000; // bytes of a file that is sent with each call
const PIECE = 1_500_000; // bytes of a piece of a larger one
const MOST = 50_000_000;
const FORMATS = ["jsonl", "json", "md", "claude-md", "text"];

export function ImportFiles() {
  const [files, setFiles] = useState([]);
  const [over, setOver] = useState(false);
  const chooser = useRef(null);
  const add = (list) => setFiles((now) => [...[...list].map((file) => ({ file, key: `${Date.now()} ${Math.random()}` })), ...now]);
  const remove = (key) => setFiles((now) => now.filter((one) => one.key !== key));
  useDrops(add, setOver);
  const chosen = (event) => {
    add(event.target.files);
    event.target.value = "";
  };
  return html`<section class="stack">
    <div class=${`drop-zone ${over ? "over" : ""}`}>
      <${Icon} name="upload" /><h2>${t("teach.import")}</h2><p class="soft">${t("teach.import_what")}</p>
      <input ref=${chooser} class="hidden-text" type="file" multiple tabindex="-1" aria-label=${t("teach.choose")} onChange=${chosen} />
      <${Button} icon="file" onClick=${() => chooser.current.click()}>${t("teach.choose")}<//>
    </div>
    ${files.map((one) => html`<${OneFile} key=${one.key} file=${one.file} onRemove=${() => remove(one.key)} />`)}
  </section>`;
}

// Files may be dropped anywhere on the page while this view is shown.
function useDrops(add, setOver) {
  useEffect(() => {
    const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const drag = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event) => event.relatedTarget === null && setOver(false);
    const drop = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(false);
      add(event.dataTransfer.files);
    };
    const all = [["dragover", drag], ["dragleave", leave], ["drop", drop]];
    all.forEach(([name, react]) => addEventListener(name, react));
    return () => all.forEach(([name, react]) => removeEventListener(name, react));
  }, []);
}

function OneFile({ file, onRemove }) {
  const [options, setOptions] = useState({ format: "", keep: false, overwrite: false });
  const [sent, setSent] = useState(0);
  const content = useRef(null);
  const [preview, setPreview] = useState(null);
  const [done, setDone] = useState(null);
  const given = async () => {
    content.current ??= await contentOf(file, setSent);
    return { name: file.name, ...content.current, ...(options.format ? { format: options.format } : {}), ...(options.keep ? { keep: true } : {}) };
  };
  const looking = useAction(async () => {
    setPreview(null);
    setPreview(await call("import_preview", await given()));
  });
  const importing = useAction(async () => {
    setDone(await call("import_upload", { ...(await given()), ...(options.overwrite ? { overwrite: true } : {}) }));
  });
  useEffect(() => {
    looking.start();
  }, [options.format, options.keep]);
  const again = () => {
    content.current = null; // an upload that has waited too long is gone
    looking.start();
  };
  const change = (key, value) => setOptions({ ...options, [key]: value });
  return html`<article class="card stack import-file">
    <div class="spread"><div><h2>${file.name}</h2><p class="small faint">${bytes(file.size)}${preview ? ` · ${preview.title}` : ""}</p></div><${Button} kind="quiet" icon="close" label=${t("teach.put_away", { name: file.name })} disabled=${importing.busy} onClick=${onRemove} /></div>
    ${looking.busy && html`<${Sending} sent=${sent} size=${file.size} />`}
    ${looking.error && html`<${ErrorNotice} error=${looking.error} onRetry=${again} />`}
    ${done ? html`<${Imported} done=${done} />` : html`
      ${preview && html`<${Preview} preview=${preview} />`}
      <${ImportOptions} options=${options} disabled=${importing.busy} onChange=${change} />
      ${importing.error && html`<${ErrorNotice} error=${importing.error} onRetry=${again} />`}
      ${importing.busy ? html`<${Importing} total=${preview.memories} />` : html`<div class="row"><${Button} kind="primary" icon="download" disabled=${!preview?.memories} onClick=${importing.start}>${preview ? t("teach.import_n", { n: preview.memories }) : t("teach.import_none")}<//></div>`}`}
  </article>`;
}

// A small file goes with each call. A larger one is uploaded in pieces before.
async function contentOf(file, tell) {
  if (file.size > MOST) throw Object.assign(new Error(t("teach.too_large", { size: bytes(MOST) })), { hint: t("teach.too_large_hint") });
  if (file.size <= IN_ONE_CALL) return { content_base64: await base64(file) };
  let upload = {};
  for (let start = 0; start < file.size; start += PIECE) {
    const { upload_id } = await call("upload_piece", { ...upload, content_base64: await base64(file.slice(start, start + PIECE)) });
    upload = { upload_id };
    tell(Math.min(file.size, start + PIECE));
  }
  return upload;
}

function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(t("teach.unreadable")));
    reader.readAsDataURL(blob);
  });
}

function Sending({ sent, size }) {
  if (size <= IN_ONE_CALL || sent >= size) return html`<${Busy} text=${t("teach.reading")} />`;
  return html`<div class="row"><progress max=${size} value=${sent} aria-label=${t("teach.uploading")}></progress><span class="small soft" role="status">${t("teach.uploaded_of", { n: bytes(sent), of: bytes(size) })}</span></div>`;
}

// How far an import is: the daemon tells how many memories there are while it writes.
function Importing({ total }) {
  const start = useRef(null);
  const [written, setWritten] = useState(0);
  useEffect(() => {
    call("filters").then((now) => (start.current ??= sum(now.types)), () => {});
  }, []);
  useEvents((event, data) => {
    if (event === "changed" && start.current !== null) setWritten(Math.max(0, sum(data.memories) - start.current));
  });
  return html`<div class="row"><progress max=${total} value=${written > 0 ? Math.min(written, total) : undefined} aria-label=${t("teach.progress")}></progress><span class="small soft" role="status">${t("teach.importing", { n: total })}</span></div>`;
}

const sum = (counts) => Object.values(counts).reduce((all, one) => all + one, 0);

function ImportOptions({ options, disabled, onChange }) {
  const formats = [["", t("teach.format_auto")], ...FORMATS.map((format) => [format, t(`teach.format_${format}`)])];
  return html`<div class="row import-options">
    <${Field} label=${t("teach.format")}><${Select} value=${options.format} disabled=${disabled} choices=${formats} onChange=${(value) => onChange("format", value)} /><//>
    <label class="check"><input type="checkbox" disabled=${disabled} checked=${options.keep} onChange=${(event) => onChange("keep", event.target.checked)} />${t("teach.keep")}</label>
    <label class="check"><input type="checkbox" disabled=${disabled} checked=${options.overwrite} onChange=${(event) => onChange("overwrite", event.target.checked)} />${t("teach.overwrite")}</label>
  </div>`;
}

function Preview({ preview }) {
  const facts = [["would", preview.memories, "good"], ["here", preview.known ?? 0, ""], ["expired", preview.expired, ""], ["refused", preview.refused.length, "danger"]];
  const months = Object.entries(preview.months).slice(-36);
  return html`<div class="row">${facts.filter(([name, n]) => n || name === "would").map(([name, n, kind]) => html`<${Chip} key=${name} kind=${kind}>${t(`teach.preview_${name}`, { n })}<//>`)}</div>
    ${preview.groups.length > 0 && html`<${Groups} groups=${preview.groups} />`}
    ${months.length > 1 && html`<${Bars} parts=${["accent"]} height=${110} every=${Math.ceil(months.length / 8)} label=${t("teach.by_month")} rows=${months.map(([month, n]) => ({ label: month, title: `${month}: ${number(n)}`, values: { accent: n } }))} />`}
    ${preview.first.length > 0 && html`<details class="import-first" open><summary>${t("teach.first", { n: preview.first.length })}</summary><ul class="some">${preview.first.map((one, place) => html`<li key=${place}><${TypeChip} type=${one.type} />${one.kind && html`<${Chip}>${one.kind}<//>`}<span class="grow first-text">${one.text}</span>${one.created_at && html`<span class="small faint">${shortDay(one.created_at)}</span>`}</li>`)}</ul></details>`}
    <${Faults} faults=${preview.refused} skipped=${preview.skipped} />`;
}

function Groups({ groups }) {
  const names = ["type", "kind", "project", "from", "to", "memories"];
  const shown = (group, name) => (name === "type" ? html`<${TypeChip} type=${group.type} />` : name === "memories" ? number(group.memories) : group[name]);
  return html`<div class="table-box" tabindex="0" role="region" aria-label=${t("teach.groups")}><table class="table"><thead><tr>${names.map((name) => html`<th key=${name} class=${name === "memories" ? "number" : ""}>${t(`teach.column_${name}`)}</th>`)}</tr></thead><tbody>${groups.slice(0, 50).map((group, place) => html`<tr key=${place}>${names.map((name) => html`<td key=${name} class=${name === "memories" ? "number" : ""}>${shown(group, name)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function Faults({ faults = [], skipped = {} }) {
  const reasons = Object.entries(skipped);
  return html`${faults.length > 0 && html`<details><summary class="danger-text">${t("teach.faults", { n: faults.length })}</summary><ul class="some">${faults.map((one, place) => html`<li key=${place}><span class="mono small">${one.where}</span><span class="grow first-text">${one.message}</span></li>`)}</ul></details>`}
    ${reasons.length > 0 && html`<details><summary class="soft">${t("teach.skipped", { n: sum(skipped) })}</summary><ul class="some">${reasons.map(([reason, n]) => html`<li key=${reason}><span class="number">${number(n)}</span><span class="grow first-text">${reason}</span></li>`)}</ul></details>`}`;
}

const OUTCOMES = [["added", "good"], ["replaced", "good"], ["known", ""], ["kept", "warning"], ["expired", ""], ["masked", "warning"], ["refused", "danger"]];

function Imported({ done }) {
  return html`<${Notice} kind="good" icon="check">${t("teach.imported", { n: done.added + done.replaced })}<//>
    <div class="row">${OUTCOMES.filter(([name]) => done[name]).map(([name, kind]) => html`<${Chip} key=${name} kind=${kind}>${t(`teach.done_${name}`, { n: done[name] })}<//>`)}</div>
    <${Faults} faults=${[...done.rows, ...done.faults]} skipped=${done.skipped} />`;
}
