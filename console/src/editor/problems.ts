// Where in a text the errors are that the server has told of. Pure.
import type { ApiError } from "../api/http";
import { fieldPath, lineOf, outline, type Path } from "./outline";

export interface LineProblem {
  /** The first line is 0. */
  line: number;
  message: string;
}

const PROBLEMS_MAX = 50;
/** As the server names fields: in quotes, with a dot before it (server-side apply), or at the end of a sentence. */
const FIELD = /(?:unknown|duplicate) field "([^"]+)"|\.(\S+): field not declared|\(at ([^()\s]+)\)/g;
const GO_FIELD = /struct field \w+\.(\S+) of type/;
const LINE = /\bline (\d+)\b/g;

/** The lines of one document that an error is about; none if it names no place. */
export function problemsOf(error: ApiError, text: string): LineProblem[] {
  const lines = outline(text);
  const first = Math.max(0, lines.findIndex((line) => line.path.length));
  const document = lines[first]?.document ?? 0;
  const at = (path: Path) => Math.max(first, lineOf(lines, document, path));
  const found: LineProblem[] = error.causes.map((cause) => ({ line: at(fieldPath(cause.field)), message: cause.message }));
  if (!found.length) {
    for (const match of error.message.matchAll(FIELD)) found.push({ line: at(fieldPath(match[1] ?? match[2] ?? match[3] ?? "")), message: match[3] ? error.message : match[0].replace(/^\./, "") });
  }
  const go = GO_FIELD.exec(error.message);
  if (!found.length && go) found.push({ line: at(fieldPath(go[1]!)), message: error.message });
  if (!found.length) {
    // A parser names first where it began and last where it failed.
    const named = [...error.message.matchAll(LINE)].map((match) => Number(match[1]) - 1).filter((line) => line < lines.length);
    const line = named.at(-1);
    if (line !== undefined) found.push({ line, message: error.message });
  }
  return found.slice(0, PROBLEMS_MAX);
}
