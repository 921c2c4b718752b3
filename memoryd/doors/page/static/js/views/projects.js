// Projects: what each has, and one of them with its memories.

import { html, useState } from "../../vendor/preact-htm.js";
import { number, t } from "../i18n.js";
import { address } from "../router.js";
import { useCall, useReloadOnChange } from "../ui/state.js";
import { Answer, Button, Empty, Head, When } from "../ui/widgets.js";
import { Project } from "./project.js";

const TYPES = ["fact", "conversation", "context"];
const PAGE = 100;

export default function View({ place }) {
  const { project, shared } = place.query;
  const found = useCall("list_projects");
  useReloadOnChange(found.reload);
  if (project || shared) return html`<${Project} key=${project ?? ""} name=${project ?? null} projects=${found} />`;
  return html`<${Head} title=${t("projects.title")} lead=${t("projects.lead")} /><${Answer} of=${found}>${(answer) => html`<${List} projects=${answer.projects} />`}<//>`;
}

function List({ projects }) {
  const [most, setMost] = useState(PAGE);
  const largest = Math.max(1, ...projects.map((one) => one.memories));
  if (!projects.length) return html`<div class="card"><${Empty} icon="projects" title=${t("projects.none")}>${t("projects.none_hint")}<//></div>`;
  return html`
    <div class="legend">${TYPES.map((type) => html`<span key=${type}><i class=${type}></i>${t(`types.${type}`)}</span>`)}</div>
    <ul class="card project-list">${projects.slice(0, most).map((one) => html`<${Row} key=${one.project ?? ""} facts=${one} largest=${largest} />`)}</ul>
    ${projects.length > most && html`<div><${Button} onClick=${() => setMost(most + PAGE)}>${t("common.more")}<//></div>`}`;
}

export const placeOf = (name) => address("projects", "", name === null ? { shared: true } : { project: name });
export const nameOf = (name) => (name === null ? t("projects.shared") : name);

function Row({ facts, largest }) {
  return html`<li><a class="project-row" href=${placeOf(facts.project)}>
    <span class="project-name">${nameOf(facts.project)}${facts.project === null && html`<span class="small faint">${t("projects.shared_hint")}</span>`}</span>
    <span class="number project-count">${number(facts.memories)}</span>
    <${TypeBar} types=${facts.types} largest=${largest} />
    <span class="small faint project-newest"><${When} time=${facts.newest} /></span>
  </a></li>`;
}

// One bar for the types of a project, as long as its share of the largest one.
export function TypeBar({ types, largest }) {
  let x = 0;
  const label = TYPES.filter((type) => types[type]).map((type) => `${number(types[type])} ${t(`types.${type}`)}`).join(", ");
  const parts = TYPES.map((type) => {
    const width = ((types[type] ?? 0) / largest) * 300;
    x += width;
    return width > 0 && html`<rect key=${type} class=${`fill-${type}`} x=${x - width} width=${Math.max(width, 1.5)} height="8" />`;
  });
  return html`<svg class="type-bar" viewBox="0 0 300 8" preserveAspectRatio="none" role="img" aria-label=${label}><title>${label}</title><rect class="fill-line" width="300" height="8" />${parts}</svg>`;
}
