// The network map: a tenant's networks, what is in them, and who talks to whom.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ObjectFeed, TableFeed } from "../api/feed";
import { ALL, INGRESSES, NETWORKS, PODS, SERVICES, SYSTEM, collection } from "../api/paths";
import type { Meta } from "../api/types";
import { Button, LiveDot, Problem, useFeed } from "../parts/basics";
import { bytes, tone, visible } from "../parts/show";
import { route, setQuery } from "../state/route";
import { scheme } from "../state/settings";
import { namespace } from "../state/tenant";
import { t } from "../text";
import { build, isShown, isSystemService, networkOf, podOf, type MapEdge, type MapModel, type MapNetwork, type MapNode, type MapObjects, type MapPod, type MapService } from "../map/model";
import type { Graph } from "../map/graph";
import { useFlows } from "./flows";
import { EdgePanel, IdlePanel, PodsPanel } from "./map-panel";

const OPEN_PODS_MAX = 60;
const SINCE_SECONDS = 120;
const ASK_MS = 10_000;
const TENANTS_SHOWN = 6;

/** Of one tenant; for ring0, of several side by side. */
export function MapView({ tenant }: { tenant: string }) {
  const space = tenant === ALL ? "" : namespace.value;
  const pods = useFeed(() => new TableFeed(collection(tenant, PODS, space)), `map pods ${tenant} ${space}`);
  const services = useFeed(() => new TableFeed(collection(tenant, SERVICES, space)).asking(ASK_MS), `map services ${tenant} ${space}`);
  const ingresses = useFeed(() => new TableFeed(collection(tenant, INGRESSES, space)).asking(ASK_MS), `map ingresses ${tenant} ${space}`);
  const networks = useFeed(() => new ObjectFeed(collection(tenant, NETWORKS)).asking(ASK_MS), `map networks ${tenant}`);
  const { feed, flows, rates } = useFlows(tenant, space, SINCE_SECONDS);
  const [opened, setOpened] = useState<ReadonlySet<string> | "all" | "none" | null>(null);
  const [chosen, setChosen] = useState<MapPod[]>([]);
  const [edge, setEdge] = useState<string>("");
  const [withSystem, setWithSystem] = useState(false);
  const changes = `${pods.changes.value} ${services.changes.value} ${ingresses.changes.value} ${networks.changes.value}`;
  const asked = route.value.query["tenants"] ?? "";
  const all = useMemo(() => podsOf(pods, tenant), [changes]);
  const tenants = useMemo(() => (tenant === ALL ? tenantsShown(all, asked) : [tenant]), [all, tenant, asked]);
  const objects = useMemo((): MapObjects => {
    const isHere = (each: { tenant: string }) => tenants.includes(each.tenant);
    return {
      isManyTenants: tenant === ALL,
      networks: networksOf(networks, tenant).filter(isHere),
      pods: all.filter(isHere),
      services: [...servicesOf(services, tenant, withSystem), ...ingressesOf(ingresses, tenant)].filter(isHere),
      flows: flows.filter((flow) => isHere({ tenant: flow.metadata.tenant ?? tenant }) && isShown(flow, withSystem)),
      rates,
    };
  }, [changes, flows, rates, all, tenants, withSystem]);
  const isOpen = (group: string) => (opened === null ? objects.pods.length <= OPEN_PODS_MAX : opened === "all" || (opened !== "none" && opened.has(group)));
  const model = useMemo(() => build(objects, isOpen, (status) => tone(status)), [objects, opened]);
  const failed = [pods, services, networks, feed].map((each) => each.state.value === "failed" && each.error.value?.message).find(Boolean);
  const shown = model.edges.find((each) => each.id === edge);
  return (
    <section class="view">
      <header class="view-head">
        <h1>{t().map}</h1>
        <span class="count">{t().collapsed(objects.pods.length)}</span>
        <LiveDot feed={pods} />
        <span class="space" />
        {tenant === ALL && <TenantsChoice all={[...new Set(all.map((pod) => pod.tenant))].sort()} shown={tenants} />}
        <Button kind="quiet" pressed={withSystem} onClick={() => setWithSystem(!withSystem)}>
          {t().systemServices}
        </Button>
        <Button kind="quiet" onClick={() => setOpened("all")}>
          {t().expandAll}
        </Button>
        <Button kind="quiet" onClick={() => setOpened("none")}>
          {t().collapseAll}
        </Button>
      </header>
      {failed && <Problem text={failed} />}
      <div class="map">
        <Canvas
          model={model}
          selected={shown ? [shown.id] : chosen.map((pod) => `p:${pod.key}`)}
          onEdge={(next) => {
            setEdge(next.id);
            setChosen([]);
          }}
          onNode={(node) => {
            setEdge("");
            const [pod] = node.pods;
            if (node.kind === "pod" && pod) setChosen((old) => (old.length === 1 && old[0]?.key !== pod.key ? [old[0]!, pod] : [pod]));
            if (node.kind === "group") setOpened(toggled(opened, node.id, model, isOpen));
          }}
          onNothing={() => {
            setEdge("");
            setChosen([]);
          }}
        />
        <aside class={shown || chosen.length ? "panel" : "panel idle"}>
          {shown ? <EdgePanel edge={shown} /> : chosen.length ? <PodsPanel pods={chosen} flows={flows} /> : <IdlePanel objects={objects} edges={model.edges} onEdge={setEdge} />}
        </aside>
        <Legend />
      </div>
    </section>
  );
}

/** Those of the link; else those with most pods, for tenants without any have nothing to show. */
function tenantsShown(pods: MapPod[], asked: string): string[] {
  if (asked) return asked.split(",");
  const counts = new Map<string, number>();
  for (const pod of pods) if (pod.tenant !== SYSTEM) counts.set(pod.tenant, (counts.get(pod.tenant) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, TENANTS_SHOWN).map(([name]) => name);
}

function TenantsChoice({ all, shown }: { all: string[]; shown: string[] }) {
  const choose = (name: string, isChosen: boolean) => {
    const next = isChosen ? [...shown, name] : shown.filter((each) => each !== name);
    setQuery({ tenants: next.join(",") });
  };
  return (
    <details class="choices">
      <summary>
        {t().tenants} <span class="count">{t().filtered(shown.length, all.length)}</span>
      </summary>
      <div class="popup">
        {all.map((name) => (
          <label class="check" key={name}>
            <input type="checkbox" checked={shown.includes(name)} onChange={(event) => choose(name, event.currentTarget.checked)} /> {visible(name)}
          </label>
        ))}
      </div>
    </details>
  );
}

function toggled(opened: ReadonlySet<string> | "all" | "none" | null, id: string, model: MapModel, isOpen: (group: string) => boolean): ReadonlySet<string> {
  const now = new Set(opened instanceof Set ? (opened as ReadonlySet<string>) : model.nodes.filter((node) => node.kind === "group" && isOpen(node.id)).map((node) => node.id));
  if (!now.delete(id)) now.add(id);
  return now;
}

function column(feed: TableFeed, name: string): number {
  return feed.columns.findIndex((each) => each.name === name);
}

const ENDED = ["Completed", "Succeeded", "Failed"];

function podsOf(feed: TableFeed, tenant: string): MapPod[] {
  const [ip, status] = [column(feed, "IP"), column(feed, "Status")];
  return [...feed.rows.values()].map((row) => podOf(row, tenant, String(row.cells[ip] ?? ""), String(row.cells[status] ?? ""))).filter((pod) => !ENDED.includes(pod.status));
}

function servicesOf(feed: TableFeed, tenant: string, withSystem: boolean): MapService[] {
  const [type, address] = [column(feed, "Type"), column(feed, "External-IP")];
  return [...feed.rows.values()]
    .filter((row) => withSystem || !isSystemService(row.object.metadata.name))
    .map((row) => ({ ...placeOf(row.object, tenant), kind: row.cells[type] === "LoadBalancer" ? "balancer" : "service", outside: shownCell(row.cells[address]) }));
}

function ingressesOf(feed: TableFeed, tenant: string): MapService[] {
  const [hosts, address] = [column(feed, "Hosts"), column(feed, "Address")];
  return [...feed.rows.values()].map((row) => ({ ...placeOf(row.object, tenant), kind: "ingress", outside: shownCell(row.cells[hosts]) || shownCell(row.cells[address]) }));
}

function placeOf(object: { metadata: Meta }, tenant: string): Pick<MapService, "tenant" | "key" | "network"> {
  const { metadata } = object;
  return { tenant: metadata.tenant ?? tenant, key: `${metadata.namespace}/${metadata.name}`, network: networkOf(object) };
}

function shownCell(cell: unknown): string {
  return cell && cell !== "<none>" ? visible(cell) : "";
}

function networksOf(feed: ObjectFeed, tenant: string): MapNetwork[] {
  return [...feed.items.values()].map(({ metadata, spec, status }) => {
    const egress = spec?.["egress"] as { enabled?: boolean } | undefined;
    return { tenant: metadata.tenant ?? tenant, name: metadata.name, vpc: visible(status?.["vpc"] ?? spec?.["vpcID"]), cidr: visible(status?.["cidr"]), hasEgress: !!egress?.enabled };
  });
}

interface CanvasProps {
  model: MapModel;
  selected: string[];
  onNode: (node: MapNode) => void;
  onEdge: (edge: MapEdge) => void;
  onNothing: () => void;
}

function Canvas(props: CanvasProps) {
  const box = useRef<HTMLDivElement>(null);
  const [graph, setGraph] = useState<Graph | null>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    let made: Graph | null = null;
    let isShown = true;
    void import("../map/graph").then(({ Graph }) => {
      if (!isShown || !box.current) return;
      made = new Graph(box.current, label, edgeLabel, {
        onNode: (node) => latest.current.onNode(node),
        onEdge: (edge) => latest.current.onEdge(edge),
        onNothing: () => latest.current.onNothing(),
      });
      setGraph(made);
    });
    return () => {
      isShown = false;
      made?.close();
    };
  }, []);
  useEffect(() => graph?.show(props.model), [graph, props.model]);
  useEffect(() => graph?.select(props.selected), [graph, props.selected.join()]);
  useEffect(() => graph?.recolour(), [graph, scheme.value]);
  return (
    <>
      <div class="canvas" ref={box} role="img" aria-label={t().map} data-nodes={graph ? props.model.nodes.length : 0} />
      <div class="canvas-tools">
        <Button kind="quiet" onClick={() => graph?.fit()}>
          {t().fit}
        </Button>
      </div>
    </>
  );
}

function label(node: MapNode): string {
  if (node.kind === "outside") return t().outside;
  if (node.kind === "gateway") return t().gateway;
  if (node.kind === "egress") return t().wayOut;
  if (node.kind === "group") return `${visible(node.label)}${node.isOpen ? "  ·  " : "\n"}${t().collapsed(node.pods.length)}`;
  return visible(node.label);
}

/** How much, and by which policy. */
function edgeLabel(edge: MapEdge): string {
  if (edge.verdict === "dropped") return [`✕ ${visible(edge.policy)}`, edge.rate ? t().packetsPerSecond(edge.rate) : ""].filter(Boolean).join("\n");
  return [edge.rate >= 1 ? `${bytes(edge.rate)}/s` : "", visible(edge.policy)].filter(Boolean).join(" · ");
}

function Legend() {
  return (
    <dl class="legend" aria-label={t().legend}>
      <div>
        <dt class="line forwarded" />
        <dd>{t().forwarded}</dd>
      </div>
      <div>
        <dt class="line dropped" />
        <dd>{t().dropped}</dd>
      </div>
    </dl>
  );
}
