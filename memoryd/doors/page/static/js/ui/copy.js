// A command or a name that one wants to take to a terminal.

import { html, useState } from "../../vendor/preact-htm.js";
import { t } from "../i18n.js";
import { Button } from "./widgets.js";

export function Copyable({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 2000);
    } catch {
      setCopied(false); // the browser forbids it: the text can be selected
    }
  };
  return html`<span class="copyable"><code>${text}</code><${Button} kind="quiet small" icon=${copied ? "check" : "copy"} label=${t(copied ? "doctor.copied" : "doctor.copy", { text })} onClick=${copy} /></span>`;
}
