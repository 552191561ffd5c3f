// Who owns an object, and what it owns: by owner references, as the garbage collector has it.
//
// The API finds no objects by their owner, so the kinds that are owned as a rule are listed, and the tenant's own.
import type { Access } from "./access";
import { TABLE, json } from "./http";
import { collection, kindKey, one, query } from "./paths";
import type { Kind, KubeObject, Meta, Table } from "./types";

export interface Related {
  kind: Kind;
  meta: Meta;
  /** What kubectl shows in its column of the state. */
  state: string;
  dependents: Related[];
}

const OWNED = new Set([
  "pods", "configmaps", "secrets", "services", "persistentvolumeclaims", "serviceaccounts", "replicasets.apps", "deployments.apps", "statefulsets.apps", "daemonsets.apps",
  "controllerrevisions.apps", "jobs.batch", "cronjobs.batch", "endpointslices.discovery.k8s.io", "networkpolicies.networking.k8s.io", "ingresses.networking.k8s.io",
  "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy",
]);
const STOCK = /(^$|^(apps|batch|autoscaling|policy)$|\.k8s\.io$|\.alcove\.io$|^mizar\.com$|^arktos\.futurewei\.com$)/;
const LISTED_MAX = 2000;
const DEPTH_MAX = 8;
const AT_ONCE = 3;

/** The owners above an object, the nearest first; as far as the user may read them. */
export async function ownersOf(tenant: string, kinds: readonly Kind[], object: KubeObject): Promise<Related[]> {
  const found: Related[] = [];
  let meta = object.metadata;
  while (found.length < DEPTH_MAX) {
    const owner = meta.ownerReferences?.find((each) => each.controller) ?? meta.ownerReferences?.[0];
    const group = owner?.apiVersion.includes("/") ? owner.apiVersion.split("/")[0] : "";
    const kind = owner && kinds.find((each) => each.kind === owner.kind && each.group === group);
    if (!owner || !kind) break;
    const namespace = kind.namespaced ? (meta.namespace ?? "") : "";
    const table = await json<Table>("GET", `${one(tenant, kind, namespace, owner.name)}?includeObject=Metadata`, undefined, { accept: TABLE }).catch(() => null);
    const [first] = table ? related(kind, table) : [];
    if (!first) {
      found.push({ kind, meta: { name: owner.name, namespace }, state: "", dependents: [] });
      break;
    }
    found.push(first);
    meta = first.meta;
  }
  return found;
}

/** What an object owns, and what that owns. */
export async function dependentsOf(tenant: string, kinds: readonly Kind[], rights: Access, object: KubeObject): Promise<Related[]> {
  const namespace = object.metadata.namespace ?? "";
  const wanted = kinds.filter((kind) => (kind.namespaced || !namespace) && kind.verbs.includes("list") && (OWNED.has(kindKey(kind)) || !STOCK.test(kind.group)) && rights.may("list", kind));
  const byOwner = new Map<string, Related[]>();
  const next = wanted[Symbol.iterator]();
  const work = async () => {
    for (const kind of next) {
      const path = collection(tenant, kind, namespace) + query({ includeObject: "Metadata", limit: LISTED_MAX });
      const table = await json<Table>("GET", path, undefined, { accept: TABLE }).catch(() => null);
      for (const each of table ? related(kind, table) : []) {
        for (const { uid } of each.meta.ownerReferences ?? []) if (uid) byOwner.set(uid, [...(byOwner.get(uid) ?? []), each]);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return below(object.metadata.uid ?? "", byOwner, new Set());
}

/** Owner references may form a circle: each object is shown once. */
function below(uid: string, byOwner: Map<string, Related[]>, seen: Set<string>, depth = 0): Related[] {
  if (depth >= DEPTH_MAX) return [];
  const found = (byOwner.get(uid) ?? []).filter((each) => each.meta.uid && !seen.has(each.meta.uid));
  found.forEach((each) => seen.add(each.meta.uid!));
  return found.map((each) => ({ ...each, dependents: below(each.meta.uid!, byOwner, seen, depth + 1) }));
}

function related(kind: Kind, table: Table): Related[] {
  const columns = table.columnDefinitions ?? [];
  const at = columns.findIndex((column) => column.name === "Status") >= 0 ? columns.findIndex((column) => column.name === "Status") : columns.findIndex((column) => /^(ready|completions|desired)$/i.test(column.name));
  return (table.rows ?? []).map((row) => ({ kind, meta: row.object.metadata, state: at < 0 ? "" : String(row.cells[at] ?? ""), dependents: [] }));
}
