// The map as data: boxes in boxes, and edges between what is in them. Pure.
//
// tenant ▸ network (its VPC) ▸ subnet ▸ workloads, which are opened to see their pods. A thousand pods of one workload are
// one node until somebody wants to see them.
import { decidedBy, type Flow, type FlowEnd } from "../api/flows";
import type { TableRow } from "../api/types";

export interface MapPod {
  key: string;
  namespace: string;
  name: string;
  network: string;
  subnet: string;
  workload: string;
  ip: string;
  status: string;
}

export interface MapNode {
  id: string;
  kind: "network" | "subnet" | "group" | "pod" | "service" | "gateway" | "outside";
  label: string;
  parent?: string;
  pods: MapPod[];
  tone?: "good" | "warn" | "bad" | "";
  /** Whether a group's pods are shown in it. */
  isOpen?: boolean;
}

export interface MapEdge {
  id: string;
  source: string;
  target: string;
  verdict: "forwarded" | "dropped";
  policy: string;
  bytes: number;
  flows: Flow[];
}

export interface MapModel {
  nodes: MapNode[];
  edges: MapEdge[];
}

export interface NetworkInfo {
  name: string;
  vpc: string;
  cidr: string;
}

/** Packets that go to nowhere in particular are in the table of flows. */
export function isShown(flow: Flow, withSystem: boolean): boolean {
  const hasEnds = !!flow.destination.address && !!flow.source.address;
  return hasEnds && (withSystem || !isSystemService(flow.service?.name ?? ""));
}

/** The services that every network has: its DNS and its API server. */
export function isSystemService(name: string): boolean {
  return /^(kube-dns-|kubernetes-|kubernetes$)/.test(name);
}

const OUTSIDE = "outside";
const NETWORK_LABEL = "arktos.futurewei.com/network";

export function podOf(row: TableRow, ip: string, status: string): MapPod {
  const { metadata } = row.object;
  const owner = metadata.ownerReferences?.find((each) => each.controller);
  // A ReplicaSet's name is that of its Deployment and a hash.
  const workload = owner ? (owner.kind === "ReplicaSet" ? owner.name.replace(/-[a-z0-9]+$/, "") : owner.name) : metadata.name;
  return {
    key: `${metadata.namespace}/${metadata.name}`,
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    network: metadata.labels?.[NETWORK_LABEL] ?? "default",
    subnet: metadata.annotations?.["mizar.com/subnet"] ?? "",
    workload,
    ip,
    status,
  };
}

export function networkOf(row: TableRow): string {
  return row.object.metadata.labels?.[NETWORK_LABEL] ?? "default";
}

const groupId = (pod: MapPod) => `g:${pod.network}/${pod.subnet}/${pod.namespace}/${pod.workload}`;
const podId = (key: string) => `p:${key}`;
const serviceId = (key: string) => `s:${key}`;

/** What is shown: `isOpen` says which groups are opened. */
export function build(
  networks: NetworkInfo[],
  pods: MapPod[],
  services: { key: string; network: string }[],
  flows: Flow[],
  isOpen: (group: string) => boolean,
  tone: (status: string) => "good" | "warn" | "bad" | "",
): MapModel {
  const nodes = new Map<string, MapNode>();
  const add = (node: MapNode) => nodes.get(node.id) ?? (nodes.set(node.id, node), node);
  const box = (name: string) => {
    const info = networks.find((each) => each.name === name);
    const label = [name, info?.vpc, info?.cidr].filter(Boolean).join("  ·  ");
    return add({ id: `n:${name}`, kind: "network", label, pods: [] });
  };
  networks.forEach((each) => box(each.name));
  const shownAs = new Map<string, string>();
  for (const pod of pods) {
    const network = box(pod.network);
    const parent = pod.subnet ? add({ id: `n:${pod.network}/${pod.subnet}`, kind: "subnet", label: pod.subnet, parent: network.id, pods: [] }).id : network.id;
    const id = groupId(pod);
    const group = add({ id, kind: "group", label: pod.workload, parent, pods: [] });
    group.pods.push(pod);
    shownAs.set(pod.key, id);
  }
  for (const group of [...nodes.values()].filter((each) => each.kind === "group")) {
    const [only] = group.pods;
    if (group.pods.length === 1 && only) {
      nodes.delete(group.id);
      addPod(nodes, only, group.parent, tone);
      shownAs.set(only.key, podId(only.key));
    } else if (isOpen(group.id)) {
      group.isOpen = true;
      for (const pod of group.pods) {
        addPod(nodes, pod, group.id, tone);
        shownAs.set(pod.key, podId(pod.key));
      }
    } else group.tone = worst(group.pods.map((pod) => tone(pod.status)));
  }
  const used = new Set(flows.flatMap((flow) => (flow.service?.name ? [`${flow.service.namespace}/${flow.service.name}`] : [])));
  for (const service of services) {
    if (used.has(service.key) || services.length <= 30) add({ id: serviceId(service.key), kind: "service", label: service.key.split("/")[1] ?? "", parent: box(service.network).id, pods: [] });
  }
  // First the edges: they add nodes for what is outside.
  const edges = edgesOf(flows, nodes, shownAs, add);
  const filled = new Set([...nodes.values()].map((node) => node.parent));
  const empty = [...nodes.values()].filter((node) => node.kind === "network" && !filled.has(node.id));
  // A network with nothing in it is shown where there is nothing else to see.
  if (filled.size > 1) empty.forEach((node) => nodes.delete(node.id));
  return { nodes: [...nodes.values()], edges };
}

function addPod(nodes: Map<string, MapNode>, pod: MapPod, parent: string | undefined, tone: (status: string) => MapNode["tone"]): void {
  nodes.set(podId(pod.key), { id: podId(pod.key), kind: "pod", label: parent?.startsWith("g:") && pod.name.startsWith(`${pod.workload}-`) ? pod.name.split("-").at(-1)! : pod.workload, ...(parent ? { parent } : {}), pods: [pod], tone: tone(pod.status) ?? "" });
}

function worst(tones: (MapNode["tone"])[]): "good" | "warn" | "bad" | "" {
  return (["bad", "warn", "good"] as const).find((each) => tones.includes(each)) ?? "";
}

function edgesOf(flows: Flow[], nodes: Map<string, MapNode>, shownAs: Map<string, string>, add: (node: MapNode) => MapNode): MapEdge[] {
  const edges = new Map<string, MapEdge>();
  const end = (of: FlowEnd, network: string): string => {
    const shown = of.name ? shownAs.get(`${of.namespace}/${of.name}`) : undefined;
    if (shown) return shown;
    if (of.kind === "Service" && of.name && nodes.has(serviceId(`${of.namespace}/${of.name}`))) return serviceId(`${of.namespace}/${of.name}`);
    if (of.kind === "Gateway" && nodes.has(`n:${network}`)) return add({ id: `gw:${network}`, kind: "gateway", label: "", parent: `n:${network}`, pods: [] }).id;
    return add({ id: OUTSIDE, kind: "outside", label: "", pods: [] }).id;
  };
  const connect = (source: string, target: string, flow: Flow) => {
    if (source === target && source === OUTSIDE) return;
    const verdict = flow.verdict === "dropped" ? "dropped" : "forwarded";
    const id = `${source}>${target}:${verdict}`;
    const edge = edges.get(id) ?? { id, source, target, verdict, policy: "", bytes: 0, flows: [] };
    edge.flows.push(flow);
    edge.bytes += (flow.bytesSent ?? 0) + (flow.bytesReceived ?? 0);
    const policies = (flow.policies ?? []).map((each) => each.policy);
    edge.policy ||= policies[0] ?? (verdict === "dropped" ? (flow.reason ?? decidedBy(flow)) : "");
    edges.set(id, edge);
  };
  for (const flow of flows) {
    const service = flow.service?.name ? `${flow.service.namespace}/${flow.service.name}` : "";
    if (service && nodes.has(serviceId(service))) {
      connect(end(flow.source, flow.network), serviceId(service), flow);
      connect(serviceId(service), end(flow.destination, flow.network), flow);
    } else connect(end(flow.source, flow.network), end(flow.destination, flow.network), flow);
  }
  return [...edges.values()];
}
