// What ring0 knows of all tenants beside their objects: what the nodes have, what tenants have used today, what was dropped.
import { flowsOf } from "./flows";
import { json } from "./http";
import { ALL, NODES, SYSTEM, TENANT_USAGES, collection, query } from "./paths";
import type { KubeList, KubeObject } from "./types";
import { quantity } from "../parts/show";

export interface Capacity {
  cpu: number;
  memory: number;
  pods: number;
}

export interface TenantTotals {
  apiSeconds: number;
  networkBytes: number;
}

export interface TenantFacts {
  capacity: Capacity;
  today: ReadonlyMap<string, TenantTotals>;
  /** Dropped packets of the last minutes. */
  drops: ReadonlyMap<string, number>;
}

export const NO_FACTS: TenantFacts = { capacity: { cpu: 0, memory: 0, pods: 0 }, today: new Map(), drops: new Map() };
export const DROPS_SECONDS = 600;
const TENANTS_MAX = 10_000;

interface TenantUsage extends KubeObject {
  amounts?: Record<string, number>;
}

/** What cannot be known, because nobody may ask or nothing answers, is empty. */
export async function tenantFacts(): Promise<TenantFacts> {
  const [capacity, today, drops] = await Promise.all([capacityOfNodes(), usedToday(), dropsByTenant()].map((each) => each.catch(() => null)));
  return { ...NO_FACTS, ...(capacity && { capacity }), ...(today && { today }), ...(drops && { drops }) } as TenantFacts;
}

async function capacityOfNodes(): Promise<Capacity> {
  const list = await json<KubeList>("GET", collection(SYSTEM, NODES));
  const sum = { cpu: 0, memory: 0, pods: 0 };
  for (const node of list.items) {
    const allocatable = (node.status?.["allocatable"] ?? {}) as Record<string, string>;
    for (const name of ["cpu", "memory", "pods"] as const) sum[name] += quantity(allocatable[name]);
  }
  return sum;
}

async function usedToday(): Promise<Map<string, TenantTotals>> {
  const midnight = `${new Date().toISOString().slice(0, 10)}T00:00:00Z`;
  const path = collection(ALL, TENANT_USAGES) + query({ from: midnight, step: "total", limit: TENANTS_MAX });
  const list = await json<KubeList<TenantUsage>>("GET", path);
  return new Map(
    list.items.map(({ metadata, amounts = {} }) => [
      metadata.tenant ?? "",
      { apiSeconds: (amounts["apiNanoseconds"] ?? 0) / 1e9, networkBytes: (amounts["networkInBytes"] ?? 0) + (amounts["networkOutBytes"] ?? 0) },
    ]),
  );
}

async function dropsByTenant(): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const flow of await flowsOf(ALL, "", DROPS_SECONDS, "", "dropped")) {
    const name = flow.metadata.tenant ?? "";
    found.set(name, (found.get(name) ?? 0) + (flow.packetsSent ?? 0) + (flow.packetsReceived ?? 0));
  }
  return found;
}
