// The lines in which two texts differ, with some around them.
import { visible } from "./show";

export interface DiffLine {
  sign: " " | "+" | "-";
  text: string;
}

const LINES_MAX = 4000;

/** By the longest common subsequence, after the equal lines at both ends. */
export function diff(before: string, after: string): DiffLine[] {
  const a = before.split("\n").slice(0, LINES_MAX);
  const b = after.split("\n").slice(0, LINES_MAX);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (lines: string[]): DiffLine[] => lines.map((text) => ({ sign: " ", text }));
  return [
    ...same(a.slice(0, start)),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...same(a.slice(a.length - end)),
  ];
}

function middle(a: string[], b: string[]): DiffLine[] {
  const width = b.length + 1;
  const length = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => length[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ sign: " ", text: a[i++]! });
      j++;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) lines.push({ sign: "-", text: a[i++]! });
    else lines.push({ sign: "+", text: b[j++]! });
  }
  return lines;
}

const CONTEXT = 3;

export function DiffView({ before, after }: { before: string; after: string }) {
  const lines = diff(before, after);
  const near = lines.map((_, at) => lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some((line) => line.sign !== " "));
  return (
    <pre class="diff">
      {lines.map((line, at) => {
        if (!near[at]) return near[at - 1] ? <span class="gap">⋯{"\n"}</span> : null;
        return (
          <span class={line.sign === "+" ? "added" : line.sign === "-" ? "removed" : ""}>
            {line.sign} {visible(line.text)}
            {"\n"}
          </span>
        );
      })}
    </pre>
  );
}
