// Dark or light: as chosen here, else as the system has it.
import { computed, effect, signal } from "@preact/signals";

const system = matchMedia("(prefers-color-scheme: light)");
const isSystemLight = signal(system.matches);
system.addEventListener("change", () => (isSystemLight.value = system.matches));

export const theme = signal(localStorage.getItem("theme") || ""); // "": as the system
export const shade = computed(() => theme.value || (isSystemLight.value ? "light" : "dark"));

// Before anything is drawn: scripts take their colours from the style.
effect(() => {
  if (theme.value) document.documentElement.dataset.theme = theme.value;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("theme", theme.value);
});
