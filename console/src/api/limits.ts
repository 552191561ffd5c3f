// The limits that tenants have hit, and what was refused to them: by the API server, by quotas, on the network.
import { flowsOf } from "./flows";
import { json } from "./http";
import { ALL, RESOURCE_QUOTAS, SYSTEM, TENANTS, collection } from "./paths";
import type { Sample } from "./prometheus";
import type { KubeList, KubeObject } from "./types";
import { quantity } from "../parts/show";

export type Limit = "rate" | "quota" | "full" | "packets";

export interface LimitHit {
  limit: Limit;
  tenant: string;
  /** How often, or for a quota which part of it is used. */
  count: number;
  detail: string;
  link?: { kind: string; namespace: string; name: string };
}

export const DROPS_SECONDS = 600;
export const FULL = 0.9;

/** Requests that were refused since the server has started. */
export function refusedRequests(metrics: Sample[]): LimitHit[] {
  const counts = new Map<string, LimitHit>();
  for (const { name, labels, value } of metrics) {
    if (name !== "alcove_tenant_refused_requests_total" || !value) continue;
    const { tenant = "", limit } = labels;
    const hit: LimitHit = { limit: limit === "quota" ? "quota" : "rate", tenant, count: 0, detail: "" };
    // Several workers of one server have a value each.
    const known = counts.get(`${tenant} ${limit}`) ?? hit;
    known.count += value;
    counts.set(`${tenant} ${limit}`, known);
  }
  return [...counts.values()];
}

/** Drops that are nobody's fault, or what a tenant's own policies ask for. */
const ORDINARY = new Set(["PolicyEgress", "PolicyIngress", "NoBackend", "NoEndpoint", "NoRoute", "Multicast", "NeighborIgnored", "NotIp", "Truncated", "Notice"]);

/** Packets that nodes have dropped because they were forged, malformed, or too many. */
export async function droppedPackets(): Promise<LimitHit[]> {
  const found = new Map<string, LimitHit>();
  for (const flow of await flowsOf(ALL, "", DROPS_SECONDS, "", "dropped")) {
    if (ORDINARY.has(flow.reason ?? "")) continue;
    const tenant = flow.metadata.tenant ?? "";
    const detail = flow.message || flow.reason || "";
    const hit = found.get(`${tenant} ${detail}`) ?? { limit: "packets", tenant, count: 0, detail };
    hit.count += (flow.packetsSent ?? 0) + (flow.packetsReceived ?? 0);
    found.set(`${tenant} ${detail}`, hit);
  }
  return [...found.values()];
}

/** Quotas in all tenants, and of tenants, of which nearly all is used. */
export async function fullQuotas(): Promise<LimitHit[]> {
  const [quotas, tenants] = await Promise.all([json<KubeList>("GET", collection(ALL, RESOURCE_QUOTAS)), json<KubeList>("GET", collection(SYSTEM, TENANTS))]);
  const inside = quotas.items.flatMap((quota) => {
    const { namespace = "", name, tenant = "" } = quota.metadata;
    return full(quotaRows(quota)).map((row): LimitHit => ({ ...hitOf(tenant, `${namespace}/${name} `, row), link: { kind: "resourcequotas", namespace, name } }));
  });
  return [...inside, ...tenants.items.flatMap((tenant) => full(tenantQuotaRows(tenant)).map((row) => hitOf(tenant.metadata.name, "", row)))];
}

function full(rows: QuotaRow[]): QuotaRow[] {
  return rows.filter((row) => row.part >= FULL);
}

function hitOf(tenant: string, name: string, row: QuotaRow): LimitHit {
  return { limit: "full", tenant, count: row.part, detail: `${name}${row.resource} ${row.used} / ${row.hard}` };
}

export interface QuotaRow {
  resource: string;
  used: string;
  hard: string;
  /** Between 0 and 1. */
  part: number;
}

type Amounts = Record<string, string> | undefined;

export function quotaRows(quota: KubeObject): QuotaRow[] {
  const status = (quota.status ?? {}) as { hard?: Amounts; used?: Amounts };
  return rowsOf(status.hard, status.used);
}

/** Of the ceiling that ring0 has given a tenant. */
export function tenantQuotaRows(tenant: KubeObject): QuotaRow[] {
  const spec = tenant.spec?.["quota"] as { hard?: Amounts } | undefined;
  const status = tenant.status?.["quota"] as { used?: Amounts } | undefined;
  return rowsOf(spec?.hard, status?.used);
}

function rowsOf(limits: Amounts, amounts: Amounts): QuotaRow[] {
  return Object.entries(limits ?? {}).map(([resource, hard]) => {
    const used = amounts?.[resource] ?? "0";
    const most = quantity(hard);
    return { resource, used, hard, part: most > 0 ? Math.min(1, quantity(used) / most) : 1 };
  });
}
