// What a user has chosen for this browser: no secrets.
import { computed, effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
export type Language = "en" | "de";

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Private windows may keep nothing; then the choice lasts as long as the page.
  }
}

function oneOf<T extends string>(value: string | null, allowed: readonly T[], otherwise: T): T {
  return allowed.find((each) => each === value) ?? otherwise;
}

export const theme = signal<Theme>(oneOf(stored("theme"), ["auto", "light", "dark"], "auto"));
export const language = signal<Language>(
  oneOf(stored("language"), ["en", "de"], navigator.language.startsWith("de") ? "de" : "en"),
);

const system = matchMedia("(prefers-color-scheme: dark)");
const isSystemDark = signal(system.matches);
system.addEventListener("change", () => (isSystemDark.value = system.matches));
/** The colours that are shown. */
export const scheme = computed(() => (theme.value === "auto" ? (isSystemDark.value ? "dark" : "light") : theme.value));

export function keepSettings(): void {
  effect(() => {
    store("theme", theme.value);
    document.documentElement.dataset["scheme"] = scheme.value;
  });
  effect(() => {
    store("language", language.value);
    document.documentElement.lang = language.value;
  });
}

export const THEMES: readonly Theme[] = ["auto", "light", "dark"];
