// What networks carry now: the difference between two lists of flows. Pure.
import type { Flow } from "./flows";

export interface Traffic {
  bytesPerSecond: number;
  dropsPerSecond: number;
}

export interface Rate {
  bytesPerSecond: number;
  packetsPerSecond: number;
}

interface Counted {
  start: string;
  bytes: number;
  packets: number;
  isDropped: boolean;
}

const sum = (...values: (number | undefined)[]) => values.reduce<number>((total, each) => total + (each ?? 0), 0);

/** The same for all flows of one connection, whichever node has seen them. */
export function connectionOf(flow: Flow): string {
  const ends = [flow.source, flow.destination].map((end) => `${end.address}:${end.port}`);
  return [flow.metadata.tenant, flow.network, flow.protocol, flow.verdict, ...ends].join(" ");
}

/** A connection that two nodes have seen counts once: always as the same of them has seen it. */
function byConnection(flows: readonly Flow[]): Map<string, Counted> {
  const found = new Map<string, Counted>();
  for (const flow of [...flows].sort((a, b) => b.node.localeCompare(a.node))) {
    found.set(connectionOf(flow), {
      start: flow.start ?? "",
      bytes: sum(flow.bytesSent, flow.bytesReceived),
      packets: sum(flow.packetsSent, flow.packetsReceived),
      isDropped: flow.verdict === "dropped",
    });
  }
  return found;
}

export class TrafficMeter {
  private before: Map<string, Counted> | null = null;
  private at = 0;
  /** Of each connection, between the last two lists. */
  rates: ReadonlyMap<string, Rate> = new Map();

  /** null for the first list, which has nothing before it. */
  take(flows: readonly Flow[], seconds = performance.now() / 1000): Traffic | null {
    const [known, now, passed] = [this.before, byConnection(flows), seconds - this.at];
    [this.before, this.at] = [now, seconds];
    if (!known || passed <= 0) return null;
    const rates = new Map<string, Rate>();
    const total: Traffic = { bytesPerSecond: 0, dropsPerSecond: 0 };
    for (const [key, flow] of now) {
      const earlier = known.get(key);
      // The same ports again are another connection.
      const since = earlier?.start === flow.start ? earlier : { bytes: 0, packets: 0 };
      const rate = { bytesPerSecond: Math.max(0, flow.bytes - since.bytes) / passed, packetsPerSecond: Math.max(0, flow.packets - since.packets) / passed };
      rates.set(key, rate);
      if (flow.isDropped) total.dropsPerSecond += rate.packetsPerSecond;
      else total.bytesPerSecond += rate.bytesPerSecond;
    }
    this.rates = rates;
    return total;
  }
}
