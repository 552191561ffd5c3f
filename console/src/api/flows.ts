// Connections and drops, as the nodes have seen them (sight.alcove.io). Nothing of it is stored, so it is asked for.
import { json } from "./http";
import { FLOWS, TRACES, collection, query } from "./paths";
import type { KubeList, KubeObject } from "./types";

export interface FlowEnd {
  address?: string;
  port?: number;
  kind?: string;
  namespace?: string;
  name?: string;
}

export interface FlowPolicy {
  direction: string;
  policy: string;
  allows: boolean;
}

export interface Flow extends KubeObject {
  node: string;
  network: string;
  direction?: string;
  verdict: string;
  protocol: string;
  source: FlowEnd;
  destination: FlowEnd;
  service?: FlowEnd;
  start?: string;
  end?: string;
  bytesSent?: number;
  bytesReceived?: number;
  packetsSent?: number;
  packetsReceived?: number;
  reason?: string;
  message?: string;
  policies?: FlowPolicy[];
}

/** What the kernel of one node does with a packet. */
export interface NodeTrace {
  node?: string;
  verdict?: string;
  destination?: FlowEnd;
  nextNode?: string;
  reason?: string;
  message?: string;
  policies?: FlowPolicy[];
}

export interface TraceStatus extends NodeTrace {
  /** The destination's node, if it is another one. */
  receiver?: NodeTrace;
}

/** The newest, of the whole tenant or of one pod; of one verdict, if it is given. */
export async function flowsOf(tenant: string, namespace: string, sinceSeconds: number, pod = "", verdict = ""): Promise<Flow[]> {
  const path = collection(tenant, FLOWS, namespace) + query({ sinceSeconds, pod, verdict, limit: 5000 });
  return (await json<KubeList<Flow>>("GET", path)).items;
}

export async function traced(tenant: string, namespace: string, spec: { pod: string; address: string; port: number; protocol: string }): Promise<TraceStatus> {
  const body = { apiVersion: "sight.alcove.io/v1alpha1", kind: "Trace", spec };
  const answer = await json<{ status?: TraceStatus }>("POST", collection(tenant, TRACES, namespace), body);
  return answer.status ?? {};
}

export function endText(end: FlowEnd | undefined): string {
  if (!end) return "";
  const name = end.name ? `${end.namespace ?? ""}/${end.name}` : end.kind === "Gateway" ? "gateway" : (end.address ?? "");
  return end.port ? `${name}:${end.port}` : name;
}

/** The policies that decided, or why it was dropped. */
export function decidedBy(flow: { message?: string; policies?: FlowPolicy[] }): string {
  return flow.message || [...new Set((flow.policies ?? []).map((each) => each.policy))].join(", ");
}
