// The kinds that a tenant has: those of Kubernetes, ours, and the tenant's own.
import { json } from "./http";
import type { Kind } from "./types";

const ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

interface Discovered {
  resource: string;
  responseKind?: { kind: string };
  scope: string;
  verbs: string[];
  shortNames?: string[];
  subresources?: { subresource: string }[];
}

interface Group {
  metadata?: { name?: string };
  versions?: { version: string; resources?: Discovered[] }[];
}

export async function kindsOf(tenant: string): Promise<Kind[]> {
  const base = `/tenants/${encodeURIComponent(tenant)}`;
  const found = await Promise.all(
    ["/api", "/apis"].map((path) => json<{ items: Group[] }>("GET", base + path, undefined, { accept: ACCEPT })),
  );
  const kinds = found.flatMap((answer) => answer.items.flatMap(kindsOfGroup));
  return kinds.sort((a, b) => a.resource.localeCompare(b.resource));
}

/** Of each resource the version that the server prefers, which comes first. */
function kindsOfGroup(group: Group): Kind[] {
  const kinds = new Map<string, Kind>();
  for (const { version, resources } of group.versions ?? []) {
    for (const each of resources ?? []) {
      if (kinds.has(each.resource)) continue;
      kinds.set(each.resource, {
        group: group.metadata?.name ?? "",
        version,
        resource: each.resource,
        kind: each.responseKind?.kind ?? each.resource,
        namespaced: each.scope === "Namespaced",
        verbs: each.verbs,
        shortNames: each.shortNames ?? [],
        subresources: (each.subresources ?? []).map((sub) => sub.subresource),
      });
    }
  }
  return [...kinds.values()];
}
