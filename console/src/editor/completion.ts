// What the editor offers and explains: fields and values by the tenant's own schemas.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { hoverTooltip, type Tooltip } from "@codemirror/view";
import type { EditorState, Extension } from "@codemirror/state";
import { schemasOf, type Field } from "../api/schemas";
import type { Kind } from "../api/types";
import { visible } from "../parts/show";
import { outline, topValue, type Path } from "./outline";

export interface Knowledge {
  tenant: string;
  kinds: () => readonly Kind[];
}

interface Spot {
  group: string;
  version: string;
  kind: string;
}

const DESCRIPTION_MAX = 1200;
const OFFERED_MAX = 300;

function spotOf(text: string, line: number): { spot: Spot; path: Path } {
  const lines = outline(text);
  const at = lines[line];
  const document = at?.document ?? 0;
  const apiVersion = topValue(lines, document, "apiVersion");
  const [group, version] = apiVersion.includes("/") ? (apiVersion.split("/") as [string, string]) : ["", apiVersion];
  return { spot: { group, version, kind: topValue(lines, document, "kind") }, path: at?.path ?? [] };
}

/** Fields at the cursor's indentation, or values after a colon. */
export function completions(known: Knowledge): (context: CompletionContext) => Promise<CompletionResult | null> {
  return async (context) => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const value = /:\s+(["']?[^\s"'#]*)$/.exec(before);
    if (value) return values(known, context.state, line.number - 1, context.pos - value[1]!.length);
    const key = /^(\s*(?:-\s+)*)([\w$/.-]*)$/.exec(before);
    if (!key || (!key[2] && !context.explicit)) return null;
    return fields(known, context.state, line.number - 1, key[1]!, context.pos - key[2]!.length);
  };
}

async function fields(known: Knowledge, state: EditorState, line: number, indent: string, from: number): Promise<CompletionResult | null> {
  const lines = state.doc.toString().split("\n");
  lines[line] = `${indent}x:`;
  const { spot, path } = spotOf(lines.join("\n"), line);
  const parent = path.slice(0, -1);
  const top = parent.length ? [] : ["apiVersion", "kind", "metadata"].map((name) => plain(name));
  const found = await fieldsAt(known, spot, parent);
  const column = indent.length;
  const options = found.length ? found.map((field) => option(field, column)) : top;
  return options.length ? { from, options: options.slice(0, OFFERED_MAX), validFor: /^[\w$/.-]*$/ } : null;
}

async function fieldsAt(known: Knowledge, spot: Spot, path: Path): Promise<Field[]> {
  if (!spot.version || !spot.kind) return [];
  const schemas = await schemasOf(known.tenant, spot.group, spot.version).catch(() => null);
  return schemas?.fieldsAt(spot.group, spot.version, spot.kind, path) ?? [];
}

async function fieldAt(known: Knowledge, spot: Spot, path: Path): Promise<Field | null> {
  if (!spot.version || !spot.kind || !path.length) return null;
  const schemas = await schemasOf(known.tenant, spot.group, spot.version).catch(() => null);
  return schemas?.fieldAt(spot.group, spot.version, spot.kind, path) ?? null;
}

async function values(known: Knowledge, state: EditorState, line: number, from: number): Promise<CompletionResult | null> {
  const { spot, path } = spotOf(state.doc.toString(), line);
  const offered = path.length === 1 && path[0] === "apiVersion" ? apiVersions(known) : path.length === 1 && path[0] === "kind" ? kindNames(known, spot) : ((await fieldAt(known, spot, path))?.values ?? []);
  const options = [...new Set(offered)].slice(0, OFFERED_MAX).map((each): Completion => ({ label: visible(each), apply: each, type: "enum" }));
  return options.length ? { from, options, validFor: /^[\w./-]*$/ } : null;
}

function apiVersions(known: Knowledge): string[] {
  return known.kinds().map((kind) => (kind.group ? `${kind.group}/${kind.version}` : kind.version));
}

function kindNames(known: Knowledge, spot: Spot): string[] {
  const all = known.kinds().filter((kind) => kind.verbs.includes("create"));
  return all.filter((kind) => !spot.version || (kind.group === spot.group && kind.version === spot.version)).map((kind) => kind.kind);
}

function plain(name: string): Completion {
  return { label: name, apply: name === "metadata" ? "metadata:\n  name: " : `${name}: `, type: "property" };
}

/** With what follows the key: a space, or the next line. Keys that are no simple words are quoted. */
function option(field: Field, column: number): Completion {
  const name = /^[\w$./-]+$/.test(field.name) ? field.name : JSON.stringify(field.name);
  const below = " ".repeat(column + 2);
  const after = field.isList ? `\n${" ".repeat(column)}- ` : field.hasFields ? `\n${below}` : " ";
  return {
    label: visible(field.name),
    detail: visible(field.type),
    type: "property",
    boost: field.isRequired ? 10 : 0,
    info: () => explanation(field),
    apply: `${name}:${after}`,
  };
}

/** Made of text nodes: a description is what somebody has written. */
function explanation(field: Field): HTMLElement {
  const box = document.createElement("div");
  box.className = "hint";
  const head = document.createElement("div");
  head.className = "hint-head";
  head.textContent = `${visible(field.name)}: ${visible(field.type)}${field.isRequired ? " *" : ""}`;
  const words = document.createElement("div");
  words.textContent = visible(field.description.slice(0, DESCRIPTION_MAX));
  const choices = document.createElement("div");
  choices.textContent = field.values.slice(0, 20).map(visible).join(" | ");
  box.append(head, words, choices);
  return box;
}

/** The description of the field under the mouse. */
export function hints(known: Knowledge): Extension {
  return hoverTooltip(async (view, pos): Promise<Tooltip | null> => {
    const line = view.state.doc.lineAt(pos);
    const lines = outline(view.state.doc.toString());
    const at = lines[line.number - 1];
    if (!at || at.to === 0 || pos < line.from + at.from || pos > line.from + at.to) return null;
    const { spot, path } = spotOf(view.state.doc.toString(), line.number - 1);
    const field = await fieldAt(known, spot, path);
    if (!field || (!field.description && field.type === "any")) return null;
    return { pos: line.from + at.from, end: line.from + at.to, above: true, create: () => ({ dom: explanation(field) }) };
  });
}
