// How values become text. Whatever somebody has stored is shown as what it is: characters that would reorder or hide
// other text are shown by their numbers.
import { signal } from "@preact/signals";

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

export function visible(value: unknown): string {
  const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.replace(HIDDEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A line of a log, without the sequences by which terminals are told colours and positions. */
export function logLine(text: string): string {
  return visible(text.replace(ESCAPES, ""));
}

/** The time now, in steps: what shows an age reads it. */
export const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 10_000);

/** Like kubectl's: `5s`, `3m`, `4h`, `2d`. */
export function age(timestamp: string | undefined, at = now.value): string {
  if (!timestamp) return "";
  const seconds = Math.max(0, Math.floor((at - Date.parse(timestamp)) / 1000));
  if (Number.isNaN(seconds)) return visible(timestamp);
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes}m${seconds % 60 ? `${seconds % 60}s` : ""}`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

export function fullTime(timestamp: string | undefined): string {
  if (!timestamp) return "";
  const date = new Date(timestamp);
  return Number.isNaN(date.getTime()) ? visible(timestamp) : date.toLocaleString();
}

const BINARY: Record<string, number> = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };
const DECIMAL: Record<string, number> = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };

/** A Kubernetes quantity as a number; 0 if it is none. */
export function quantity(text: unknown): number {
  const match = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?)$/.exec(String(text ?? "0"));
  if (!match) return 0;
  return Number(match[1]) * (BINARY[match[2] ?? ""] ?? DECIMAL[match[2] ?? ""] ?? 1);
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function percent(part: number): string {
  return `${(part * 100).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;
}

export function cores(value: number): string {
  return value < 1 ? `${Math.round(value * 1000)}m` : value.toFixed(value < 10 ? 2 : 1);
}

/** good, warn, bad or "": how a status word is coloured. The word itself is always there to be read. */
export function tone(status: string): "good" | "warn" | "bad" | "" {
  if (/^(running|active|ready|bound|available|complete|completed|succeeded|true|approved|issued|provisioned|established|forwarded|normal|deployed)/i.test(status)) return "good";
  if (/(error|fail|backoff|evicted|notready|lost|denied|dropped|oom|unknown|invalid|expired|disrupt)/i.test(status)) return "bad";
  if (/(pending|terminating|creating|init|waiting|warning|asleep|released|notscheduled|schedulingdisabled|suspended)/i.test(status)) return "warn";
  return "";
}
