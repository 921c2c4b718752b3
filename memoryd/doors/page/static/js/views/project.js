// One project: its counts, its memories, and what can be done with it.

import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { exact, number, t } from "../i18n.js";
import { address, go } from "../router.js";
import { NO_PROJECT } from "../ui/filters.js";
import { MemoryRow } from "../ui/memory.js";
import { toast, useCall, useReloadOnChange } from "../ui/state.js";
import { Answer, Busy, Button, Empty, ErrorNotice, Facts, Head, TypeChip, useAction } from "../ui/widgets.js";
import { ForgetProject, MergeProject, MoveMemories, RenameProject } from "./project_actions.js";
import { nameOf, placeOf } from "./projects.js";

const PAGE = 20;

export function Project({ name, projects }) {
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const leaveFor = (to) => {
    close();
    projects.reload();
    go(to, { replace: true });
  };
  return html`
    <nav class="crumbs" aria-label=${t("projects.path")}><a href=${address("projects")}>${t("projects.title")}</a></nav>
    <${Head} title=${nameOf(name)} tab=${t("projects.title")} lead=${name === null ? t("projects.shared_lead") : null}>${name !== null && html`<${Button} icon="edit" onClick=${() => setDialog("rename")}>${t("projects.rename")}<//><${Button} icon="link" onClick=${() => setDialog("merge")}>${t("projects.merge")}<//><${Button} kind="danger" icon="trash" onClick=${() => setDialog("forget")}>${t("projects.forget")}<//>`}<//>
    <${Answer} of=${projects}>${(answer) => {
      const facts = answer.projects.find((one) => one.project === name);
      const others = answer.projects.filter((one) => one.project !== name && one.project !== null);
      if (!facts) return html`<div class="card"><${Empty} icon="projects" title=${t("projects.no_memories")} /></div>`;
      return html`<${Counts} facts=${facts} /><${Memories} name=${name} others=${others} onMoved=${projects.reload} />
        ${dialog === "rename" && html`<${RenameProject} facts=${facts} onClose=${close} onDone=${(to) => leaveFor(placeOf(to))} />`}
        ${dialog === "merge" && html`<${MergeProject} facts=${facts} others=${others} onClose=${close} onDone=${(to) => leaveFor(placeOf(to))} />`}
        ${dialog === "forget" && html`<${ForgetProject} facts=${facts} onClose=${close} onDone=${() => leaveFor(address("projects"))} />`}`;
    }}<//>`;
}

function Counts({ facts }) {
  const types = Object.entries(facts.types).map(([type, count]) => html`<span key=${type} class="row tight"><${TypeChip} type=${type} />${number(count)}</span>`);
  const query = { project: facts.project ?? NO_PROJECT };
  return html`<div class="card"><${Facts} rows=${[
    [t("projects.memories"), html`${number(facts.memories)}, <a href=${address("browse", "", query)}>${t("projects.in_browse")}</a>`],
    [t("projects.types"), html`<span class="row">${types}</span>`],
    [t("projects.newest"), exact(facts.newest)],
  ]} /></div>`;
}

// Its memories, the newest first, to choose some and move them.
function Memories({ name, others, onMoved }) {
  const filter = name === null ? { metadata: { project: { $exists: false } } } : { project: name };
  const first = useCall("list_memories", { ...filter, limit: PAGE });
  const [more, setMore] = useState({ memories: [], cursor: undefined });
  const [chosen, setChosen] = useState(new Set());
  const [moving, setMoving] = useState(false);
  useEffect(() => setMore({ memories: [], cursor: first.answer?.cursor }), [first.answer]);
  // The first page follows what is stored, until somebody reads on or chooses.
  useReloadOnChange(() => chosen.size || more.memories.length || first.reload());
  const next = useAction(async () => {
    const page = await call("list_memories", { ...filter, limit: PAGE, cursor: more.cursor });
    setMore({ memories: [...more.memories, ...page.memories], cursor: page.cursor });
  });
  const toggle = (id) => setChosen((now) => new Set(now.has(id) ? [...now].filter((one) => one !== id) : [...now, id]));
  const moved = (count, to) => {
    setMoving(false);
    setChosen(new Set());
    toast(t("projects.moved", { n: count, to: nameOf(to) }));
    first.reload();
    onMoved();
  };
  if (first.error && !first.answer) return html`<${ErrorNotice} error=${first.error} onRetry=${first.reload} />`;
  if (!first.answer) return html`<${Busy} />`;
  const all = [...first.answer.memories, ...more.memories];
  return html`<section class="stack tight">
    <div class="spread"><h2>${t("projects.memories")}</h2><div class="row">${chosen.size > 0 && html`<span class="small soft" role="status">${t("projects.chosen", { n: chosen.size })}</span>`}<${Button} disabled=${!chosen.size} onClick=${() => setMoving(true)}>${t("projects.move")}<//></div></div>
    <ul class="card flush">${all.map((memory) => html`<${MemoryRow} key=${memory.id} memory=${memory} lead=${html`<label class="check tall"><input type="checkbox" checked=${chosen.has(memory.id)} onChange=${() => toggle(memory.id)} /><span class="hidden-text">${t("projects.choose")}</span></label>`} />`)}</ul>
    ${next.error && html`<${ErrorNotice} error=${next.error} />`}
    ${more.cursor && html`<div><${Button} disabled=${next.busy} onClick=${next.start}>${t("common.more")}<//></div>`}
    ${moving && html`<${MoveMemories} ids=${[...chosen]} from=${name} others=${others} onClose=${() => setMoving(false)} onDone=${moved} />`}
  </section>`;
}
