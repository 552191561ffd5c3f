// What ring0 changes of tenants, and how much there is in one.
import { call, json } from "./http";
import { SYSTEM, TENANTS, one } from "./paths";

export async function patchTenant(name: string, body: unknown): Promise<void> {
  await call("PATCH", one(SYSTEM, TENANTS, "", name), { body: JSON.stringify(body), type: "application/merge-patch+json" });
}

/** As `alcove tenant sleep` and `wake` do it. */
export async function setAsleep(name: string, asleep: boolean): Promise<void> {
  const time = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  await patchTenant(name, { spec: { sleep: asleep ? { asleep: true, wakeTime: null } : { asleep: null, wakeTime: time } } });
}

/** How many objects a collection has. */
export async function countOf(path: string): Promise<number> {
  const list = await json<{ items: unknown[]; metadata: { remainingItemCount?: number } }>("GET", `${path}?limit=500`);
  return list.items.length + (list.metadata.remainingItemCount ?? 0);
}
