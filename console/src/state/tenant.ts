// The tenant of the view: its kinds, its namespaces, and what the user may do in it.
import { computed, effect, signal } from "@preact/signals";
import { NOTHING, accessIn, type Access } from "../api/access";
import { kindsOf } from "../api/discovery";
import { json, message } from "../api/http";
import { ALL, NAMESPACES, SYSTEM, collection, kindKey } from "../api/paths";
import type { Kind, KubeList } from "../api/types";
import { toast } from "../parts/basics";
import { route, routeTenant } from "./route";
import { user } from "./session";

export const tenant = computed(() => routeTenant.value || user.value?.tenant || "");
/** Where the tenant's kinds and rights are asked for: all tenants together have none of their own. */
const home = computed(() => (tenant.value === ALL ? SYSTEM : tenant.value));

export const kinds = signal<Kind[]>([]);
export const namespaces = signal<string[]>([]);
export const access = signal<Access>(NOTHING);
export const isKnown = signal(false);
/** Why nothing can be known of the tenant; empty if something can. */
export const refused = signal("");
/** The chosen namespace; empty for all. */
export const namespace = signal("");

export function kindOf(key: string): Kind | undefined {
  return kinds.value.find((kind) => kindKey(kind) === key);
}

/** The kind of an object, by its apiVersion and kind. */
export function kindNamed(apiVersion: string, name: string): Kind | undefined {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  return kinds.value.find((kind) => kind.kind === name && kind.group === group && !kind.resource.includes("/"));
}

async function load(of: string): Promise<void> {
  const [found, rights, spaces] = await Promise.all([
    kindsOf(of),
    accessIn(of, "default"),
    json<KubeList>("GET", collection(of, NAMESPACES)).catch(() => null),
  ]);
  if (home.peek() !== of) return;
  kinds.value = found;
  access.value = rights;
  namespaces.value = spaces ? spaces.items.map((each) => each.metadata.name).sort() : ["default"];
  isKnown.value = true;
}

/** Learns again what there is, for example after a kind was defined. */
export function refreshKinds(): void {
  void load(home.peek()).catch((error: unknown) => toast(message(error), "bad"));
}

export function followTenant(): void {
  let last = "";
  effect(() => {
    const of = user.value ? home.value : "";
    if (of === last) return;
    last = of;
    isKnown.value = false;
    refused.value = "";
    kinds.value = [];
    namespaces.value = [];
    if (of) void load(of).catch((error: unknown) => home.peek() === of && (refused.value = message(error)));
  });
  effect(() => {
    const asked = route.value.query["ns"];
    if (asked !== undefined) namespace.value = asked;
  });
}
