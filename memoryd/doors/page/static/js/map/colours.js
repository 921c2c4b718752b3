// What the points are coloured by: each point belongs to a group, and each group has a colour and a
// line in the legend.

import { t } from "../i18n.js";

export const COLOURINGS = ["type", "kind", "project", "age"];
const MOST_GROUPS = 11; // with colours of their own; all others share one
const NONE = "~none";
const OTHER = "~other";
const DAY = 86400;
const AGES = [["day", DAY], ["week", 7 * DAY], ["month", 30 * DAY], ["quarter", 91 * DAY], ["year", 365 * DAY], ["older", Infinity]];

// Colours that differ in brightness as well as in hue. Each has a contrast of at least 3 to the
// ground of its theme.
const LIGHT = ["#0f766e", "#5b46c9", "#b45309", "#be185d", "#1d6fb8", "#4d7c0f", "#7c2d12", "#9333ea", "#0e7490", "#a16207", "#334155"];
const DARK = ["#4fd1c1", "#b0a2ff", "#f0b959", "#ff8fbf", "#74b9ff", "#a8d65c", "#f39b77", "#d49bff", "#56d3ee", "#e6d36a", "#b8c4d6"];
const GREY = { light: "#857f74", dark: "#7d8590" };
const AGE_LIGHT = ["#0b3b5c", "#0f5f86", "#1f83a8", "#4b9fb9", "#7fa9a6", "#9c9484"];
const AGE_DARK = ["#ffe28a", "#f7b267", "#ea8a6a", "#c96f87", "#9a6aa6", "#6f6f96"];

// The groups of the points by one of COLOURINGS: `of` has the number of the group of each point, and
// `groups` are [{key, text, count}] in the order of the legend.
export function grouped(points, fields, by, now = Date.now() / 1000) {
  if (by === "age") return byAge(points, now);
  const names = fields[`${by}s`];
  const counts = new Uint32Array(names.length);
  const column = points[by];
  for (let i = 0; i < points.n; i++) counts[column[i]]++;
  const used = [...names.keys()].filter((code) => counts[code]);
  const ordered = by === "type" ? used : used.sort((a, b) => counts[b] - counts[a]);
  const named = ordered.filter((code) => names[code] !== "").slice(0, MOST_GROUPS);
  const groups = named.map((code) => ({ key: names[code], text: by === "type" ? t(`types.${names[code]}`) : names[code], count: counts[code] }));
  const groupOf = new Uint8Array(names.length);
  named.forEach((code, place) => { groupOf[code] = place; });
  const rest = ordered.filter((code) => names[code] !== "" && !named.includes(code));
  addShared(groups, groupOf, counts, rest, OTHER, t("map.other"));
  addShared(groups, groupOf, counts, ordered.filter((code) => names[code] === ""), NONE, t(`map.no_${by}`));
  const of = new Uint8Array(points.n);
  for (let i = 0; i < points.n; i++) of[i] = groupOf[column[i]];
  return { by, groups, of };
}

function addShared(groups, groupOf, counts, codes, key, text) {
  if (!codes.length) return;
  codes.forEach((code) => { groupOf[code] = groups.length; });
  groups.push({ key, text, count: codes.reduce((sum, code) => sum + counts[code], 0) });
}

function byAge(points, now) {
  const groups = AGES.map(([key]) => ({ key, text: t(`map.age_${key}`), count: 0 }));
  const of = new Uint8Array(points.n);
  for (let i = 0; i < points.n; i++) {
    const age = now - points.created[i];
    let group = 0;
    while (age > AGES[group][1]) group++;
    of[i] = group;
    groups[group].count++;
  }
  return { by: "age", groups, of };
}

// A colour for each group, as the theme has it.
export function coloursOf({ by, groups }, theme = document.documentElement.dataset.theme) {
  const dark = theme === "dark";
  if (by === "age") return dark ? AGE_DARK : AGE_LIGHT;
  if (by === "type") {
    const style = getComputedStyle(document.documentElement);
    return groups.map(({ key }) => style.getPropertyValue(`--${key}`).trim() || GREY[dark ? "dark" : "light"]);
  }
  const shared = GREY[dark ? "dark" : "light"];
  return groups.map(({ key }, place) => (key === NONE || key === OTHER ? shared : (dark ? DARK : LIGHT)[place]));
}

// Red, green and blue of "#rrggbb".
export function channels(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}
