// Where the user is, in the address bar: every view has a link that leads back to it.
import { computed, signal } from "@preact/signals";

export interface Route {
  /** The parts of the path: `t/acme/k/pods` is ["t", "acme", "k", "pods"]. */
  parts: string[];
  query: Record<string, string>;
}

function parse(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  return { parts, query: Object.fromEntries(new URLSearchParams(search)) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(parse(location.hash));

/** The tenant of the view; empty where none is chosen. */
export const routeTenant = computed(() => (route.value.parts[0] === "t" ? (route.value.parts[1] ?? "") : ""));

window.addEventListener("hashchange", () => (route.value = parse(location.hash)));

export function link(parts: string[], query: Record<string, string> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value);
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${search}`;
}

export function go(parts: string[], query: Record<string, string> = {}): void {
  location.hash = link(parts, query);
}

/** Changes the query of this view without another entry in the history. */
export function setQuery(changes: Record<string, string>): void {
  const { parts, query } = route.peek();
  history.replaceState(null, "", link(parts, { ...query, ...changes }));
  route.value = parse(location.hash);
}

export const NO_NAMESPACE = "-";

export function objectLink(tenant: string, kind: string, namespace: string | undefined, name: string, tab = ""): string {
  return link(["t", tenant, "o", kind, namespace || NO_NAMESPACE, name], tab ? { tab } : {});
}

export function kindLink(tenant: string, kind: string, query: Record<string, string> = {}): string {
  return link(["t", tenant, "k", kind], query);
}
