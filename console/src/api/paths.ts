// Paths of the API. Every one names its tenant.
import type { Kind } from "./types";

export const ALL = "all";
export const SYSTEM = "system";

export function query(parameters: Record<string, string | number | boolean | undefined>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? "?" + given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&") : "";
}

export function root(tenant: string, group: string, version: string): string {
  const base = `/tenants/${encodeURIComponent(tenant)}`;
  return group ? `${base}/apis/${group}/${version}` : `${base}/api/${version}`;
}

export function collection(tenant: string, kind: Kind, namespace = ""): string {
  const inside = kind.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root(tenant, kind.group, kind.version)}${inside}/${kind.resource}`;
}

export function one(tenant: string, kind: Kind, namespace: string, name: string, subresource = ""): string {
  const path = `${collection(tenant, kind, namespace)}/${encodeURIComponent(name)}`;
  return subresource ? `${path}/${subresource}` : path;
}

/** How a kind is named in links: `pods`, `deployments.apps`. */
export function kindKey(kind: { group: string; resource: string }): string {
  return kind.group ? `${kind.resource}.${kind.group}` : kind.resource;
}

/** `NetworkPolicies` of the kind NetworkPolicy and the resource networkpolicies. */
export function plural(kind: { kind: string; resource: string }): string {
  const lower = kind.kind.toLowerCase();
  let same = 0;
  while (same < lower.length && lower[same] === kind.resource[same]) same++;
  return same < 2 ? kind.kind : kind.kind.slice(0, same) + kind.resource.slice(same);
}

function known(group: string, version: string, resource: string, kind: string, namespaced: boolean): Kind {
  return { group, version, resource, kind, namespaced, verbs: ["list", "watch"], shortNames: [], subresources: [] };
}

export const PODS = known("", "v1", "pods", "Pod", true);
export const SERVICES = known("", "v1", "services", "Service", true);
export const INGRESSES = known("networking.k8s.io", "v1", "ingresses", "Ingress", true);
export const RESOURCE_QUOTAS = known("", "v1", "resourcequotas", "ResourceQuota", true);
export const LEASES = known("coordination.k8s.io", "v1", "leases", "Lease", true);
export const API_SERVICES = known("apiregistration.k8s.io", "v1", "apiservices", "APIService", false);
export const EVENTS = known("", "v1", "events", "Event", true);
export const NAMESPACES = known("", "v1", "namespaces", "Namespace", false);
export const NODES = known("", "v1", "nodes", "Node", false);
export const TENANTS = known("", "v1", "tenants", "Tenant", false);
export const NETWORKS = known("arktos.futurewei.com", "v1", "networks", "Network", false);
export const FLOWS = known("sight.alcove.io", "v1alpha1", "flows", "Flow", true);
export const TRACES = known("sight.alcove.io", "v1alpha1", "traces", "Trace", true);
export const TENANT_USAGES = known("sight.alcove.io", "v1alpha1", "tenantusages", "TenantUsage", false);
export const POD_METRICS = known("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", true);
