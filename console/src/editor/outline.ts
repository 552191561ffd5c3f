// Which field is on which line of a YAML text. Pure; by indentation, as people and servers write manifests.
//
// What is inside {} and [] on one line belongs to the field of that line. The server reads YAML; this only finds places.

export type Path = readonly (string | number)[];

export interface OutlineLine {
  /** Which of the text's documents it is in. */
  document: number;
  /** The field or item that the line begins or goes on with; empty outside of any. */
  path: Path;
  /** Columns of the key; both 0 if there is none. */
  from: number;
  to: number;
  value: string;
}

interface Level {
  column: number;
  isList: boolean;
  path: Path;
  count: number;
  last: Path;
}

const ITEM = /^-(\s+|$)/;
const KEY = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#'"{}[\],&*!|>%@`-][^#]*?|-[^\s:#][^#:]*?)\s*:(?:\s+(.*))?$/;
const BLOCK = /^[|>][-+0-9]*\s*(#.*)?$/;

export function outline(text: string): OutlineLine[] {
  const levels: Level[] = [];
  const found: OutlineLine[] = [];
  let document = 0;
  let block: { column: number; path: Path } | null = null;
  for (const line of text.split("\n")) {
    const column = line.length - line.trimStart().length;
    const isBlank = !line.trim();
    if (block && (isBlank || column > block.column)) {
      found.push({ document, path: block.path, from: 0, to: 0, value: "" });
      continue;
    }
    block = null;
    if (/^(---|\.\.\.)(\s|$)/.test(line)) {
      document++;
      levels.length = 0;
      found.push({ document, path: [], from: 0, to: 0, value: "" });
      continue;
    }
    if (isBlank || line.trimStart().startsWith("#")) {
      found.push({ document, path: [], from: 0, to: 0, value: "" });
      continue;
    }
    const placed = place(levels, line, column);
    if (BLOCK.test(placed.value)) block = { column: placed.parent, path: placed.path };
    found.push({ document, path: placed.path, from: placed.from, to: placed.to, value: placed.value });
  }
  return found;
}

function place(levels: Level[], line: string, start: number): { path: Path; from: number; to: number; value: string; parent: number } {
  let column = start;
  let parent = start;
  let rest = line.slice(column).trimEnd();
  for (let item = ITEM.exec(rest); item; item = ITEM.exec(rest)) {
    while (levels.length && levels.at(-1)!.column > column) levels.pop();
    let top = levels.at(-1);
    if (!top?.isList || top.column !== column) {
      top = { column, isList: true, path: top?.last ?? [], count: -1, last: [] };
      levels.push(top);
    }
    top.last = [...top.path, ++top.count];
    parent = column;
    column += item[0].length;
    rest = rest.slice(item[0].length);
  }
  const key = KEY.exec(rest);
  if (!key) return { path: levels.at(-1)?.last ?? [], from: 0, to: 0, value: rest, parent };
  while (levels.length && (levels.at(-1)!.column > column || (levels.at(-1)!.column === column && levels.at(-1)!.isList))) levels.pop();
  let top = levels.at(-1);
  if (!top || top.isList || top.column !== column) {
    top = { column, isList: false, path: top?.last ?? [], count: 0, last: [] };
    levels.push(top);
  }
  top.last = [...top.path, unquoted(key[1]!)];
  return { path: top.last, from: column, to: column + key[1]!.length, value: (key[2] ?? "").replace(/\s+#.*$/, ""), parent: column };
}

export function unquoted(text: string): string {
  return /^(["']).*\1$/.test(text) ? text.slice(1, -1) : text;
}

/** The value of a field at the top of a document. */
export function topValue(lines: readonly OutlineLine[], document: number, name: string): string {
  const found = lines.find((line) => line.document === document && line.path.length === 1 && line.path[0] === name);
  return unquoted(found?.value ?? "");
}

/** The line of a field, or of the nearest field around it that the text has; -1 if there is none. A path without numbers is
 * that of the first item of every list on its way. */
export function lineOf(lines: readonly OutlineLine[], document: number, path: Path): number {
  const hasNumbers = path.some((step) => typeof step === "number");
  const steps = lines.map((line) => (line.document !== document ? [] : hasNumbers ? line.path : line.path.filter((step) => typeof step !== "number")));
  for (let length = path.length; length > 0; length--) {
    const at = steps.findIndex((of) => of.length === length && of.every((step, index) => step === path[index]));
    if (at >= 0) return at;
  }
  return -1;
}

/** The path of a field as the server names it: `spec.containers[0].image`, `metadata.labels[app]`. */
export function fieldPath(field: string): Path {
  return (field.match(/[^.[\]]+|\[[^\]]*\]/g) ?? []).map((step) => {
    if (!step.startsWith("[")) return step;
    const inside = unquoted(step.slice(1, -1));
    return /^\d+$/.test(inside) ? Number(inside) : inside;
  });
}
