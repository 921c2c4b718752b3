// Texts, numbers and times in the reader's language. All texts are in strings/LANGUAGE.json.

const root = document.documentElement;
export const languages = (root.dataset.languages || "en").split(" ");
let table = {};
export let language = "en";

// Loads the table of the language that was chosen here before, or of the one that the server chose
// from what the browser likes.
export async function loadStrings() {
  const chosen = localStorage.getItem("memoryd.language");
  language = languages.includes(chosen) ? chosen : root.lang;
  const answer = await fetch(`/page/static/strings/${language}.json`);
  table = await answer.json();
  root.lang = language;
}

export function chooseLanguage(name) {
  localStorage.setItem("memoryd.language", name);
  location.reload();
}

// The text of a key such as "browse.title", with {names} filled in. A text with forms is chosen by
// the number n.
export function t(key, values = {}) {
  let text = key.split(".").reduce((part, name) => part?.[name], table);
  if (text && typeof text === "object") text = text[plural(values.n)] ?? text.other;
  if (typeof text !== "string") return key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? number(value) : String(value);
  });
}

export function hasText(key) {
  return t(key) !== key;
}

const plural = (n) => new Intl.PluralRules(language).select(Number(n) || 0);

export function number(value, digits = 0) {
  return new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);
}

export function percent(share) {
  return new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 0 }).format(share);
}

export function bytes(count) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  let place = 0;
  while (count >= 1000 && place < units.length - 1) {
    count /= 1000;
    place += 1;
  }
  const style = { style: "unit", unit: units[place], unitDisplay: "short", maximumFractionDigits: count < 10 ? 1 : 0 };
  return new Intl.NumberFormat(language, style).format(count);
}

const SPANS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

// "3 hours ago", "in 2 days". Takes an ISO time, epoch seconds or a Date.
export function relative(time, now = Date.now()) {
  const seconds = (asDate(time).getTime() - now) / 1000;
  const [unit, size] = SPANS.find(([, span]) => Math.abs(seconds) >= span) ?? SPANS.at(-1);
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  return format.format(Math.trunc(seconds / size), unit);
}

export function exact(time) {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(asDate(time));
}

export function day(time) {
  return new Intl.DateTimeFormat(language, { weekday: "long", day: "numeric", month: "long", year: "numeric" }).format(asDate(time));
}

export function shortDay(time) {
  return new Intl.DateTimeFormat(language, { day: "numeric", month: "short" }).format(asDate(time));
}

export function clockTime(time) {
  return new Intl.DateTimeFormat(language, { timeStyle: "short" }).format(asDate(time));
}

export function duration(seconds) {
  const [unit, size] = SPANS.find(([, span]) => seconds >= span) ?? SPANS.at(-1);
  const style = { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 0 };
  return new Intl.NumberFormat(language, style).format(Math.floor(seconds / size));
}

// A day without a time ("2026-11-18") is that day here, not in UTC.
function asDate(time) {
  if (time instanceof Date) return time;
  if (typeof time === "number") return new Date(time * 1000);
  return new Date(/^\d{4}-\d\d-\d\d$/.test(time) ? `${time}T00:00:00` : time);
}
