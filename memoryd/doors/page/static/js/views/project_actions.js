// Renaming, merging and forgetting a project, and moving memories to another one. Each says first what
// will happen.

import { html, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { number, t } from "../i18n.js";
import { toast, useCall } from "../ui/state.js";
import { Answer, Busy, Button, Confirm, Dialog, ErrorNotice, Field, Notice, Select, TypeChip, useAction } from "../ui/widgets.js";
import { nameOf } from "./projects.js";

const IDS = 1000; // that one call moves

// The daemon moves some thousands in a call: merge goes on until none is left.
async function moveAll(first, project, into, tell) {
  let moved = first.moved;
  for (let { left } = first; left; ) {
    tell(moved);
    const done = await call("merge_projects", { project, into });
    moved += done.moved;
    left = done.left;
  }
  return moved;
}

export function RenameProject({ facts, onClose, onDone }) {
  const [to, setTo] = useState(facts.project);
  const [moved, setMoved] = useState(0);
  const name = to.trim();
  const action = useAction(async () => {
    const first = await call("rename_project", { project: facts.project, to: name });
    await moveAll(first, facts.project, name, setMoved);
    toast(t("projects.renamed", { name }));
    onDone(name);
  });
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${action.busy || !name || name === facts.project}>${t("projects.rename")}</button>`;
  return html`<${Dialog} title=${t("projects.rename_title")} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <${Field} label=${t("projects.new_name")}><input class="input" maxlength="200" value=${to} onInput=${(event) => setTo(event.target.value)} /><//>
    <p class="soft">${t("projects.rename_what", { n: facts.memories })}</p>
    ${action.busy && html`<${Busy} text=${t("projects.moving", { n: moved, of: facts.memories })} />`}
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

export function MergeProject({ facts, others, onClose, onDone }) {
  const [into, setInto] = useState(others[0]?.project ?? "");
  const [moved, setMoved] = useState(0);
  const target = others.find((one) => one.project === into);
  const action = useAction(async () => {
    const first = await call("merge_projects", { project: facts.project, into });
    const count = await moveAll(first, facts.project, into, setMoved);
    toast(t("projects.moved", { n: count, to: into }));
    onDone(into);
  });
  if (!target) return html`<${Dialog} title=${t("projects.merge_title")} onClose=${onClose} foot=${html`<${Button} onClick=${onClose}>${t("common.close")}<//>`}><p>${t("projects.no_other")}</p><//>`;
  return html`<${Confirm} title=${t("projects.merge_title")} action=${t("projects.merge_action", { n: facts.memories })} busy=${action.busy} onConfirm=${action.start} onClose=${onClose}>
    <${Field} label=${t("projects.into")}><${Select} label=${t("projects.into")} value=${into} onChange=${setInto} choices=${others.map((one) => [one.project, `${one.project} (${number(one.memories)})`])} /><//>
    <p>${t("projects.merge_what", { n: facts.memories, project: facts.project, into, total: facts.memories + target.memories })}</p>
    <${Newest} project=${facts.project} />
    ${action.busy && html`<${Busy} text=${t("projects.moving", { n: moved, of: facts.memories })} />`}
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}

// The newest memories of a project, as a reminder of what it is.
function Newest({ project }) {
  const found = useCall("list_memories", { project, limit: 5 });
  return html`<${Answer} of=${found}>${(answer) => html`<${Some} memories=${answer.memories} label=${t("projects.newest_are")} />`}<//>`;
}

function Some({ memories, label }) {
  return html`<div class="stack tight"><span class="label-before">${label}</span><ul class="some">${memories.map((one) => html`<li key=${one.id}><${TypeChip} type=${one.type} /><span class="cut grow">${one.content}</span></li>`)}</ul></div>`;
}

// Forgetting needs the name in letters, and the daemon forgets only if as many match as were shown.
export function ForgetProject({ facts, onClose, onDone }) {
  const chosen = { metadata: { project: facts.project } };
  const preview = useCall("forget_memories", chosen);
  const [typed, setTyped] = useState("");
  const [gone, setGone] = useState(0);
  const action = useAction(async (matched) => {
    let done = await call("forget_memories", { ...chosen, confirm: matched });
    let count = done.forgotten;
    for (let left = matched - count; left > 0 && done.forgotten > 0; left -= done.forgotten) {
      setGone(count);
      done = await call("forget_memories", { ...chosen, confirm: left });
      count += done.forgotten;
    }
    toast(t("projects.forgotten", { n: count, project: facts.project }));
    onDone();
  });
  return html`<${Answer} of=${preview}>${(answer) => {
    const matched = answer.matched;
    const ready = typed.trim() === facts.project && matched > 0 && !action.busy;
    const confirm = () => ready && action.start(matched).then(preview.reload);
    return html`<${Confirm} title=${t("projects.forget_title", { project: facts.project })} action=${t("projects.forget_action", { n: matched })} busy=${!ready} onConfirm=${confirm} onClose=${onClose}>
      <${Notice} kind="error" icon="warning">${t("projects.forget_what", { n: matched, project: facts.project })}<//>
      <span class="row">${Object.entries(answer.types).map(([type, count]) => html`<span key=${type} class="row tight"><${TypeChip} type=${type} />${number(count)}</span>`)}</span>
      <${Some} memories=${answer.first} label=${t("projects.oldest_are")} />
      <${Field} label=${t("projects.type_name", { project: facts.project })}><input class="input" autocomplete="off" spellcheck=${false} value=${typed} onInput=${(event) => setTyped(event.target.value)} /><//>
      ${action.busy && html`<${Busy} text=${t("projects.forgetting", { n: gone, of: matched })} />`}
      ${action.error && html`<${ErrorNotice} error=${action.error} />`}
    <//>`;
  }}<//>`;
}

const SHARED = "shared:";
const OTHER = "other:";

export function MoveMemories({ ids, from, others, onClose, onDone }) {
  const choices = [
    ...others.map((one) => [`project:${one.project}`, one.project]),
    ...(from === null ? [] : [[SHARED, t("projects.shared")]]),
    [OTHER, t("projects.new_project")],
  ];
  const [chosen, setChosen] = useState(choices[0][0]);
  const [name, setName] = useState("");
  const to = chosen === SHARED ? null : chosen === OTHER ? name.trim() : chosen.slice("project:".length);
  const action = useAction(async () => {
    let moved = 0;
    for (let start = 0; start < ids.length; start += IDS) {
      const done = await call("move_memories", { memory_ids: ids.slice(start, start + IDS), ...(to === null ? {} : { to }) });
      moved += done.moved;
    }
    onDone(moved, to);
  });
  const foot = html`<${Button} onClick=${onClose}>${t("common.cancel")}<//><button type="submit" class="button primary" disabled=${action.busy || to === ""}>${t("projects.move_action", { n: ids.length })}</button>`;
  return html`<${Dialog} title=${t("projects.move_title")} onClose=${onClose} onSubmit=${action.start} foot=${foot}>
    <${Field} label=${t("projects.to")}><${Select} label=${t("projects.to")} value=${chosen} choices=${choices} onChange=${setChosen} /><//>
    ${chosen === OTHER && html`<${Field} label=${t("projects.new_name")}><input class="input" maxlength="200" value=${name} onInput=${(event) => setName(event.target.value)} /><//>`}
    <p class="soft">${t("projects.move_what", { n: ids.length, from: nameOf(from), to: nameOf(to) || "…" })}</p>
    ${action.error && html`<${ErrorNotice} error=${action.error} />`}
  <//>`;
}
