// The map as data: boxes in boxes, and edges between what is in them. Pure.
//
// tenant ▸ network (its VPC) ▸ subnet ▸ workloads, which are opened to see their pods. A thousand pods of one workload are
// one node until somebody wants to see them. On the rim of a network is what leads out of it or into it.
import { decidedBy, type Flow, type FlowEnd } from "../api/flows";
import { connectionOf, type Rate } from "../api/traffic";
import type { KubeObject, TableRow } from "../api/types";

export interface MapPod {
  /** Unique on the map. */
  key: string;
  tenant: string;
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
  kind: "tenant" | "network" | "subnet" | "group" | "pod" | "service" | Rim | "outside";
  label: string;
  parent?: string;
  pods: MapPod[];
  tone?: "good" | "warn" | "bad" | "";
  /** Whether a group's pods are shown in it. */
  isOpen?: boolean;
}

/** What is drawn on the border of a network. */
export type Rim = "gateway" | "balancer" | "ingress" | "egress";
const RIM: readonly string[] = ["gateway", "balancer", "ingress", "egress"] satisfies Rim[];

export function isRim(kind: MapNode["kind"]): kind is Rim {
  return RIM.includes(kind);
}

export interface MapEdge {
  id: string;
  source: string;
  target: string;
  verdict: "forwarded" | "dropped";
  policy: string;
  bytes: number;
  /** When it was last seen, in milliseconds. */
  seen: number;
  /** Bytes per second of what was forwarded, packets per second of what was dropped. */
  rate: number;
  flows: Flow[];
}

export interface MapModel {
  nodes: MapNode[];
  edges: MapEdge[];
}

export interface MapNetwork {
  tenant: string;
  name: string;
  vpc: string;
  cidr: string;
  /** Whether pods reach addresses outside. */
  hasEgress: boolean;
}

export interface MapService {
  tenant: string;
  /** Namespace and name. */
  key: string;
  network: string;
  kind: "service" | "balancer" | "ingress";
  /** Addresses or names by which it is reached from outside. */
  outside: string;
}

export interface MapObjects {
  /** Whether tenants have boxes of their own. */
  isManyTenants: boolean;
  networks: MapNetwork[];
  pods: MapPod[];
  services: MapService[];
  flows: Flow[];
  rates: ReadonlyMap<string, Rate>;
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

export const OUTSIDE = "outside";
const SERVICES_MAX = 30;
const NETWORK_LABEL = "arktos.futurewei.com/network";

export function podOf(row: TableRow, of: string, ip: string, status: string): MapPod {
  const { metadata } = row.object;
  const owner = metadata.ownerReferences?.find((each) => each.controller);
  // A ReplicaSet's name is that of its Deployment and a hash.
  const workload = owner ? (owner.kind === "ReplicaSet" ? owner.name.replace(/-[a-z0-9]+$/, "") : owner.name) : metadata.name;
  const tenant = metadata.tenant ?? of;
  return {
    key: `${tenant}/${metadata.namespace}/${metadata.name}`,
    tenant,
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    network: networkOf(row.object),
    subnet: metadata.annotations?.["mizar.com/subnet"] ?? "",
    workload,
    ip,
    status,
  };
}

export function networkOf(object: Pick<KubeObject, "metadata">): string {
  return object.metadata.labels?.[NETWORK_LABEL] ?? "default";
}

const groupId = (pod: MapPod) => `g:${pod.tenant}/${pod.network}/${pod.subnet}/${pod.namespace}/${pod.workload}`;
const podId = (pod: MapPod) => `p:${pod.key}`;
const serviceId = (tenant: string, key: string) => `s:${tenant}/${key}`;
const networkId = (tenant: string, network: string) => `n:${tenant}/${network}`;

type Tone = NonNullable<MapNode["tone"]>;
type Add = (node: Omit<MapNode, "pods">) => MapNode;

/** What is shown: `isOpen` says which groups are opened. */
export function build(objects: MapObjects, isOpen: (group: string) => boolean, tone: (status: string) => Tone): MapModel {
  const nodes = new Map<string, MapNode>();
  const add: Add = (node) => nodes.get(node.id) ?? (nodes.set(node.id, { ...node, pods: [] }), nodes.get(node.id)!);
  const infos = new Map(objects.networks.map((each) => [networkId(each.tenant, each.name), each]));
  const box = (tenant: string, name: string): string => {
    const id = networkId(tenant, name);
    const info = infos.get(id);
    const parent = objects.isManyTenants ? { parent: add({ id: `t:${tenant}`, kind: "tenant", label: tenant }).id } : {};
    return add({ id, kind: "network", label: [name, info?.vpc, info?.cidr].filter(Boolean).join("  ·  "), ...parent }).id;
  };
  objects.networks.forEach((each) => box(each.tenant, each.name));
  const shownAs = addPods(objects.pods, nodes, add, box, isOpen, tone);
  addServices(objects, add, box);
  const filled = new Set([...nodes.values()].map((node) => node.parent));
  for (const [id, node] of nodes) {
    if (node.kind !== "network") continue;
    // A network with nothing in it is shown where there is nothing else to see.
    if (!filled.has(id) && objects.pods.length) nodes.delete(id);
    else if (filled.has(id)) {
      add({ id: `gw:${id}`, kind: "gateway", label: "", parent: id });
      if (infos.get(id)?.hasEgress) add({ id: `out:${id}`, kind: "egress", label: "", parent: id });
    }
  }
  const kept = new Set([...nodes.values()].map((node) => node.parent));
  for (const [id, node] of nodes) if (node.kind === "tenant" && !kept.has(id)) nodes.delete(id);
  const edges = edgesOf(objects, nodes, shownAs, add);
  return { nodes: [...nodes.values()], edges };
}

/** The node that stands for each pod, by the pod's key. */
function addPods(pods: MapPod[], nodes: Map<string, MapNode>, add: Add, box: (tenant: string, network: string) => string, isOpen: (group: string) => boolean, tone: (status: string) => Tone): Map<string, string> {
  const shownAs = new Map<string, string>();
  const groups = new Map<string, MapNode>();
  for (const pod of pods) {
    const network = box(pod.tenant, pod.network);
    const parent = pod.subnet ? add({ id: `${network}/${pod.subnet}`, kind: "subnet", label: pod.subnet, parent: network }).id : network;
    const group = add({ id: groupId(pod), kind: "group", label: pod.workload, parent });
    groups.set(group.id, group);
    group.pods.push(pod);
    shownAs.set(pod.key, group.id);
  }
  const addPod = (pod: MapPod, parent: string | undefined) => {
    const isIn = parent?.startsWith("g:") && pod.name.startsWith(`${pod.workload}-`);
    const node = add({ id: podId(pod), kind: "pod", label: isIn ? pod.name.split("-").at(-1)! : pod.workload, ...(parent ? { parent } : {}), tone: tone(pod.status) });
    node.pods.push(pod);
    shownAs.set(pod.key, node.id);
  };
  for (const group of groups.values()) {
    const [only] = group.pods;
    if (group.pods.length === 1 && only) {
      nodes.delete(group.id);
      addPod(only, group.parent);
    } else if (isOpen(group.id)) {
      group.isOpen = true;
      group.pods.forEach((pod) => addPod(pod, group.id));
    } else group.tone = worst(group.pods.map((pod) => tone(pod.status)));
  }
  return shownAs;
}

/** All that lead in from outside; of the others, when there are many, those that are used. */
function addServices({ services, flows }: MapObjects, add: Add, box: (tenant: string, network: string) => string): void {
  const used = new Set(flows.flatMap((flow) => (flow.service?.name ? [`${flow.metadata.tenant ?? ""}/${flow.service.namespace}/${flow.service.name}`] : [])));
  for (const { tenant, key, network, kind, outside } of services) {
    if (kind === "service" && services.length > SERVICES_MAX && !used.has(`${tenant}/${key}`)) continue;
    const name = key.split("/")[1] ?? "";
    const label = outside ? `${name}\n${outside}` : name;
    add({ id: kind === "ingress" ? `i:${tenant}/${key}` : serviceId(tenant, key), kind, label, parent: box(tenant, network) });
  }
}

function worst(tones: Tone[]): Tone {
  return (["bad", "warn", "good"] as const).find((each) => tones.includes(each)) ?? "";
}

function edgesOf({ flows, rates }: MapObjects, nodes: Map<string, MapNode>, shownAs: Map<string, string>, add: Add): MapEdge[] {
  const edges = new Map<string, MapEdge & { counted: Set<string> }>();
  const end = (of: FlowEnd, tenant: string, network: string): string => {
    const shown = of.name ? shownAs.get(`${tenant}/${of.namespace}/${of.name}`) : undefined;
    if (shown) return shown;
    const service = serviceId(tenant, `${of.namespace}/${of.name}`);
    if (of.kind === "Service" && of.name && nodes.has(service)) return service;
    const gateway = `gw:${networkId(tenant, network)}`;
    return of.kind === "Gateway" && nodes.has(gateway) ? gateway : add({ id: OUTSIDE, kind: "outside", label: "" }).id;
  };
  const connect = (source: string, target: string, flow: Flow) => {
    if (source === target && source === OUTSIDE) return;
    const verdict = flow.verdict === "dropped" ? "dropped" : "forwarded";
    const id = `${source}>${target}:${verdict}`;
    const edge = edges.get(id) ?? { id, source, target, verdict, policy: "", bytes: 0, rate: 0, seen: 0, flows: [], counted: new Set<string>() };
    edges.set(id, edge);
    edge.flows.push(flow);
    edge.seen = Math.max(edge.seen, Date.parse(flow.end ?? "") || 0);
    const policies = (flow.policies ?? []).map((each) => each.policy);
    edge.policy ||= policies[0] ?? (verdict === "dropped" ? (flow.reason ?? decidedBy(flow)) : "");
    // Two nodes may have seen the same connection.
    const connection = connectionOf(flow);
    if (edge.counted.has(connection)) return;
    edge.counted.add(connection);
    edge.bytes += (flow.bytesSent ?? 0) + (flow.bytesReceived ?? 0);
    const rate = rates.get(connection);
    edge.rate += (verdict === "dropped" ? rate?.packetsPerSecond : rate?.bytesPerSecond) ?? 0;
  };
  // Only the source's node knows which service it was; the destination's has seen the same connection.
  const services = new Map(flows.flatMap((flow) => (flow.service?.name ? [[connectionOf(flow), flow.service] as const] : [])));
  for (const flow of flows) {
    const tenant = flow.metadata.tenant ?? "";
    const used = flow.service ?? services.get(connectionOf(flow));
    const [source, target] = [end(flow.source, tenant, flow.network), end(flow.destination, tenant, flow.network)];
    const service = used?.name ? serviceId(tenant, `${used.namespace}/${used.name}`) : "";
    const egress = `out:${networkId(tenant, flow.network)}`;
    const via = service && nodes.has(service) ? service : target === OUTSIDE && nodes.has(egress) ? egress : "";
    if (via) {
      connect(source, via, flow);
      connect(via, target, flow);
    } else connect(source, target, flow);
  }
  return [...edges.values()].map(({ counted: _, ...edge }) => edge);
}
