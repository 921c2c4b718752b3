// Light or dark: as the system has it, unless chosen here.

const KEY = "memoryd.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const themes = ["system", "light", "dark"];
export const chosenTheme = () => localStorage.getItem(KEY) ?? "system";

export function chooseTheme(name) {
  if (name === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, name);
  applyTheme();
}

export function applyTheme() {
  const chosen = chosenTheme();
  const dark = chosen === "dark" || (chosen === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  dispatchEvent(new Event("theme"));
}

system.addEventListener("change", applyTheme);
