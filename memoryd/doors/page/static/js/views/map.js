import { html } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { Head } from "../ui/widgets.js";

export default function View() {
  return html`<${Head} title=${t("map.title")} />`;
}
