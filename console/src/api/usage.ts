// What pods use, by tenant. The metrics API has no watch, so it is asked again while somebody looks.
import { signal } from "@preact/signals";
import { json } from "./http";
import { POD_METRICS, collection } from "./paths";
import type { KubeList, KubeObject } from "./types";
import { quantity } from "../parts/show";

export interface Usage {
  cpu: number;
  memory: number;
}

export interface PodMetrics extends KubeObject {
  containers?: { usage?: { cpu?: string; memory?: string } }[];
}

/** What a pod's containers use together. */
export function usageOf(pod: PodMetrics): Usage {
  const used = (pod.containers ?? []).map((each) => each.usage);
  const sum = (what: "cpu" | "memory") => used.reduce((total, each) => total + quantity(each?.[what]), 0);
  return { cpu: sum("cpu"), memory: sum("memory") };
}

const ASK_MS = 15_000;
const HISTORY_MAX = 40;

export class UsageHistory {
  /** The last values, the newest at the end. */
  readonly byTenant = signal<ReadonlyMap<string, readonly Usage[]>>(new Map());

  constructor(private readonly tenant: string) {}

  start(): () => void {
    const ask = () => {
      if (!document.hidden) void this.ask().catch(() => undefined);
    };
    ask();
    const timer = setInterval(ask, ASK_MS);
    return () => clearInterval(timer);
  }

  latest(tenant: string): Usage | undefined {
    return this.byTenant.value.get(tenant)?.at(-1);
  }

  private async ask(): Promise<void> {
    const list = await json<KubeList<PodMetrics>>("GET", collection(this.tenant, POD_METRICS));
    const sums = new Map<string, Usage>([...this.byTenant.peek().keys()].map((name) => [name, { cpu: 0, memory: 0 }]));
    if (this.tenant !== "all") sums.set(this.tenant, { cpu: 0, memory: 0 });
    for (const pod of list.items) {
      const name = pod.metadata.tenant ?? this.tenant;
      const sum = sums.get(name) ?? { cpu: 0, memory: 0 };
      const used = usageOf(pod);
      sum.cpu += used.cpu;
      sum.memory += used.memory;
      sums.set(name, sum);
    }
    const before = this.byTenant.peek();
    this.byTenant.value = new Map([...sums].map(([name, sum]) => [name, [...(before.get(name) ?? []), sum].slice(-HISTORY_MAX)]));
  }
}
