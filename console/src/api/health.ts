// How the parts of the system are, as far as the API shows it: the API server itself, leases, nodes, planes, aggregated APIs.
import { json, text } from "./http";
import { SYSTEM, LEASES, collection } from "./paths";
import { valuesOf, type Sample } from "./prometheus";
import type { Condition, KubeList, KubeObject } from "./types";
import { t } from "../text";

export type PartKind = "apiserver" | "leader" | "node" | "plane" | "apiservice";

export interface Part {
  kind: PartKind;
  name: string;
  /** `failing` is worse than `degraded`. */
  state: "healthy" | "degraded" | "failing" | "off";
  detail: string;
  /** Where more is to be read. */
  link?: { tenant: string; kind: string; namespace: string; name: string };
}

/** A lease that is not renewed for longer is lost, whatever its own duration says. */
const LEASE_SECONDS_DEFAULT = 15;
const SECONDS_SLOW = 1;
const LEADERS = ["alcove-controllers", "kube-scheduler"];

export interface ServerHealth {
  part: Part;
  metrics: Sample[];
}

/** What cannot be read of it is left out; that it is not ready is what it says. */
export async function serverHealth(): Promise<ServerHealth> {
  const began = performance.now();
  const problem = await text("/readyz", "text/plain").then(() => "", (error: Error) => error.message);
  const seconds = (performance.now() - began) / 1000;
  const [version, metrics] = await Promise.all([
    json<{ gitVersion?: string }>("GET", "/version").then((found) => found.gitVersion ?? "", () => ""),
    text("/metrics", "text/plain").then(valuesOf, () => []),
  ]);
  const sum = (name: string) => metrics.filter((each) => each.name === name).reduce((total, each) => total + each.value, 0);
  const memory = sum("process_resident_memory_bytes");
  const details = [version, `${Math.round(seconds * 1000)} ms`, memory && `${Math.round(memory / 2 ** 20)} MiB`, t().watches(sum("apiserver_registered_watchers")), t().waitingRequests(sum("apiserver_flowcontrol_current_inqueue_requests"))];
  const state = problem ? "failing" : seconds > SECONDS_SLOW ? "degraded" : "healthy";
  return { metrics, part: { kind: "apiserver", name: "apiserver", state, detail: problem || details.filter(Boolean).join(" · ") } };
}

export async function leaders(now = Date.now()): Promise<Part[]> {
  const list = await json<KubeList>("GET", collection(SYSTEM, LEASES, "kube-system"));
  return LEADERS.flatMap((name) => leadersOf(name, list.items, now));
}

/** The leader, or the one of each shard if the work is divided (`alcove controllers --shards N`). */
export function leadersOf(name: string, leases: KubeObject[], now: number): Part[] {
  const shards = leases.filter((lease) => new RegExp(`^${name}-\\d+-of-\\d+$`).test(lease.metadata.name));
  if (shards.length) return shards.map((lease) => leaderOf(lease.metadata.name, lease, now));
  return [leaderOf(name, leases.find((lease) => lease.metadata.name === name), now)];
}

export function leaderOf(name: string, lease: KubeObject | undefined, now: number): Part {
  const spec = (lease?.spec ?? {}) as { holderIdentity?: string; renewTime?: string; leaseDurationSeconds?: number };
  const silent = spec.renewTime ? (now - Date.parse(spec.renewTime)) / 1000 : Infinity;
  const isHeld = !!spec.holderIdentity && silent < 2 * (spec.leaseDurationSeconds ?? LEASE_SECONDS_DEFAULT);
  const seen = spec.renewTime ? t().renewed(Math.max(0, Math.round(silent))) : t().neverRenewed;
  return {
    kind: "leader",
    name,
    state: isHeld ? "healthy" : "failing",
    detail: [spec.holderIdentity, seen].filter(Boolean).join(" · "),
    link: { tenant: SYSTEM, kind: "leases.coordination.k8s.io", namespace: "kube-system", name },
  };
}

function conditionsOf(object: KubeObject): Condition[] {
  const found = object.status?.["conditions"];
  return Array.isArray(found) ? (found as Condition[]) : [];
}

export function nodePart(node: KubeObject, pods: number): Part {
  const info = (node.status?.["nodeInfo"] ?? {}) as Record<string, string>;
  const all = conditionsOf(node);
  const ready = all.find((each) => each.type === "Ready");
  const pressed = all.filter((each) => each.type !== "Ready" && each.status === "True");
  const isCordoned = !!(node.spec as { unschedulable?: boolean } | undefined)?.unschedulable;
  const state = ready?.status !== "True" ? "failing" : pressed.length || isCordoned ? "degraded" : "healthy";
  const why = state === "failing" ? [ready?.reason, ready?.message] : [...pressed.map((each) => `${each.type}: ${each.message ?? ""}`), isCordoned ? "SchedulingDisabled" : ""];
  const details = [...why, t().collapsed(pods), info["kubeletVersion"], info["containerRuntimeVersion"], info["kernelVersion"]];
  return { kind: "node", name: node.metadata.name, state, detail: details.filter(Boolean).join(" · "), link: { tenant: SYSTEM, kind: "nodes", namespace: "", name: node.metadata.name } };
}

/** The API servers of dedicated tenants. */
export function planePart(tenant: KubeObject, isAsleep: boolean): Part | null {
  const spec = (tenant.spec ?? {}) as { controlPlane?: { mode?: string } };
  if (spec.controlPlane?.mode !== "Dedicated") return null;
  const all = conditionsOf(tenant);
  const failing = all.find((each) => /(Ready|Joined)$/.test(each.type) && each.status !== "True");
  const state = isAsleep ? "off" : failing ? "failing" : "healthy";
  const detail = isAsleep ? t().asleep : failing ? `${failing.type}: ${failing.message ?? failing.reason ?? ""}` : String(tenant.status?.["endpoint"] ?? "");
  return { kind: "plane", name: tenant.metadata.name, state, detail, link: { tenant: SYSTEM, kind: "tenants", namespace: "", name: tenant.metadata.name } };
}

/** Those that another server answers. */
export function apiServicePart(service: KubeObject): Part | null {
  if (!(service.spec as { service?: unknown } | undefined)?.service) return null;
  const available = conditionsOf(service).find((each) => each.type === "Available");
  const { name, tenant = SYSTEM } = service.metadata;
  return {
    kind: "apiservice",
    name,
    state: available?.status === "True" ? "healthy" : "failing",
    detail: available?.message ?? "",
    link: { tenant, kind: "apiservices.apiregistration.k8s.io", namespace: "", name },
  };
}
