// Reads what /metrics answers, in Prometheus' text format. Pure.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function valuesOf(text: string): Sample[] {
  return text.split("\n").flatMap((line): Sample[] => {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) return [];
    const labels = [...(match[2] ?? "").matchAll(LABEL)].map(([, name = "", value = ""]) => [name, value.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char))]);
    return [{ name: match[1] ?? "", labels: Object.fromEntries(labels) as Record<string, string>, value: Number(match[3]) }];
  });
}
