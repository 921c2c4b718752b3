// Icons as paths of one size and stroke.

import { html } from "../../vendor/preact-htm.js";

const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM14 4v4h6V4zM4 20h6v-4H4z",
  browse: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  sessions: "M4 5h16v11H9l-5 4zM8 9h8M8 12.5h5",
  notes: "M6 3h9l4 4v14H6zM15 3v4h4M9 12h6M9 16h6",
  projects: "M3 6h7l2 2h9v11H3z",
  review: "M4 12l5 5L20 6",
  pushes: "M12 3v12M7 10l5 5 5-5M4 20h16",
  ask: "M9 9a3 3 0 1 1 4.5 2.6c-.9.5-1.5 1.2-1.5 2.4M12 17.5v.5M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z",
  map: "M6 8.5a1.8 1.8 0 1 0 0-3.6 1.8 1.8 0 0 0 0 3.6zM17 11a2.4 2.4 0 1 0 0-4.8A2.4 2.4 0 0 0 17 11zM9 19.4a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM18.5 19a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6z",
  teach: "M12 5v14M5 12h14",
  doctor: "M4 12h4l2-6 4 12 2-6h4",
  settings: "M5 6h8M17 6h2M5 12h2M11 12h8M5 18h10M19 18h0M15 4v4M9 10v4M17 16v4",
  backups: "M4 7c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zM4 7v10c0 1.7 3.6 3 8 3s8-1.3 8-3V7M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  pin: "M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v6",
  trash: "M5 7h14M10 4h4M7 7l1 13h8l1-13M10 11v5M14 11v5",
  tag: "M4 4h8l8 8-8 8-8-8zM8.5 8.5h.01",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3 2",
  warning: "M12 4l9 16H3zM12 10v4M12 17v.5",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5M12 7.8v.2",
  check: "M5 12l5 5 9-10",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  down: "M5 9l7 7 7-7",
  undo: "M8 5L4 9l4 4M4 9h10.5a5 5 0 0 1 0 10H11",
  filter: "M4 5h16l-6 8v6l-4-2v-4z",
  moon: "M20 14A8 8 0 0 1 10 4a8 8 0 1 0 10 10z",
  sun: "M12 16.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M19 5l-1.4 1.4M6.4 17.6L5 19",
  file: "M6 3h9l4 4v14H6zM15 3v4h4",
  again: "M20 11.5a8 8 0 1 0-2.5 6M20 5v6.5h-6.5",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  minus: "M5 12h14",
  whole: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  lasso: "M12 4c5 0 9 2.5 9 5.8s-4 5.7-9 5.7-9-2.4-9-5.7S7 4 12 4zM7 14.6c-1.4 1-1.6 3.2.2 3.9 1.6.6 2.4-.6 3.4.2.8.6.4 1.8-.4 2.3",
  renew: "M20 11a8 8 0 0 0-14.5-3.5L4 9M4 4v5h5M4 13a8 8 0 0 0 14.5 3.5L20 15M20 20v-5h-5",
  exit: "M14 4H5v16h9M10 12h10M16 8l4 4-4 4",
};

export function Icon({ name }) {
  return html`<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${PATHS[name] ?? ""} /></svg>`;
}

export function Logo() {
  return html`<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" fill="#0f766e" /><g fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round"><path d="M8.5 21.5v-8a3.75 3.75 0 0 1 7.5 0v8" /><path d="M16 13.5a3.75 3.75 0 0 1 7.5 0v8" /></g><circle cx="16" cy="24" r="1.9" fill="#fcd34d" /></svg>`;
}
