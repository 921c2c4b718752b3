// Teach: write facts in a batch, or import a file after seeing what it would bring.

import { html } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { Head } from "../ui/widgets.js";
import { ImportFiles } from "./teach_files.js";
import { WriteFacts } from "./teach_facts.js";

export default function View() {
  return html`<${Head} title=${t("teach.title")} lead=${t("teach.lead")} /><${WriteFacts} /><${ImportFiles} />`;
}
