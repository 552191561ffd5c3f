// The texts of the chosen language: `t().overview`.
import { language } from "../state/settings";
import { de } from "./de";
import { en, type Text } from "./en";

const TEXTS: Record<string, Text> = { en, de };

export const LANGUAGES = { en: "English", de: "Deutsch" } as const;

export function t(): Text {
  return TEXTS[language.value] ?? en;
}
