// What a user has chosen for this browser: no secrets.
import { effect, signal } from "@preact/signals";

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

export function keepSettings(): void {
  effect(() => {
    store("theme", theme.value);
    document.documentElement.dataset["theme"] = theme.value;
  });
  effect(() => {
    store("language", language.value);
    document.documentElement.lang = language.value;
  });
}

export const THEMES: readonly Theme[] = ["auto", "light", "dark"];
