// YAML as text. The server reads and writes it; here only lines are looked at.

/** Without `metadata.managedFields`, which nobody edits. */
export function withoutManagedFields(text: string): string {
  const kept: string[] = [];
  let isInside = false;
  let isMetadata = false;
  for (const line of text.split("\n")) {
    if (/^\S/.test(line)) isMetadata = line.startsWith("metadata:");
    if (isInside && /^ {2}[^ -]|^\S/.test(line)) isInside = false;
    if (isMetadata && line.startsWith("  managedFields:")) isInside = true;
    if (!isInside) kept.push(line);
  }
  return kept.join("\n");
}

/** Without the fields that every write changes: they are no news. */
export function unversioned(text: string): string {
  return text.replace(/^ {2}(resourceVersion|generation): .*\n/gm, "");
}

export interface Manifest {
  text: string;
  /** Where it begins in the whole text; the first line is 0. */
  line: number;
  apiVersion: string;
  kind: string;
  name: string;
  namespace: string;
}

/** The objects of a text, with what the path of the request needs. The server reads the rest. */
export function manifests(text: string): Manifest[] {
  return documents(text)
    .filter(({ lines }) => lines.some((line) => line.trim() && !line.trim().startsWith("#")))
    .map(({ line, lines }) => {
      const document = lines.join("\n");
      const top = scalars(document, "");
      const metadata = scalars(section(document, "metadata"), "  ");
      return {
        text: document,
        line,
        apiVersion: top.get("apiVersion") ?? "",
        kind: top.get("kind") ?? "",
        name: metadata.get("name") ?? "",
        namespace: metadata.get("namespace") ?? "",
      };
    });
}

function documents(text: string): { line: number; lines: string[] }[] {
  const found: { line: number; lines: string[] }[] = [{ line: 0, lines: [] }];
  text.split("\n").forEach((line, at) => {
    if (line.startsWith("---")) found.push({ line: at + 1, lines: [] });
    else found.at(-1)!.lines.push(line);
  });
  return found;
}

function section(document: string, name: string): string {
  const lines = document.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`${name}:`));
  if (start < 0) return "";
  const inline = /^\w+:\s*\{(.*)\}\s*$/.exec(lines[start] ?? "");
  if (inline) return (inline[1] ?? "").split(",").map((each) => `  ${each.trim()}`).join("\n");
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => /^\S/.test(line) && !line.startsWith("#"));
  const inside = end < 0 ? rest : rest.slice(0, end);
  // Any indentation is as good as two spaces.
  const first = inside.find((line) => line.trim());
  const indent = first ? first.length - first.trimStart().length : 2;
  return inside.filter((line) => line.length - line.trimStart().length === indent).map((line) => `  ${line.trim()}`).join("\n");
}

function scalars(text: string, indent: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of text.split("\n")) {
    const match = /^( *)([A-Za-z]+):\s*(?:"([^"]*)"|'([^']*)'|([^#\s][^#]*?))\s*(?:#.*)?$/.exec(line);
    if (match && match[1] === indent) found.set(match[2]!, match[3] ?? match[4] ?? match[5] ?? "");
  }
  return found;
}
