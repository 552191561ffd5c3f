// The network map: a tenant's networks, what is in them, and who talks to whom.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { TableFeed } from "../api/feed";
import { NETWORKS, PODS, SERVICES, collection } from "../api/paths";
import { Button, LiveDot, Problem, useFeed } from "../parts/basics";
import { tone, visible } from "../parts/show";
import { theme } from "../state/settings";
import { namespace } from "../state/tenant";
import { t } from "../text";
import { build, isShown, isSystemService, networkOf, podOf, type MapEdge, type MapModel, type MapNode, type MapPod } from "../map/model";
import type { Graph } from "../map/graph";
import { useFlows } from "./flows";
import { EdgePanel, PodsPanel } from "./map-panel";

const OPEN_PODS_MAX = 60;
const SINCE_SECONDS = 120;

export function MapView({ tenant }: { tenant: string }) {
  const space = namespace.value;
  const pods = useFeed(() => new TableFeed(collection(tenant, PODS, space)), `map pods ${tenant} ${space}`);
  const services = useFeed(() => new TableFeed(collection(tenant, SERVICES, space)), `map services ${tenant} ${space}`);
  const networks = useFeed(() => new TableFeed(collection(tenant, NETWORKS)), `map networks ${tenant}`);
  const { flows, problem } = useFlows(tenant, space, SINCE_SECONDS);
  const [opened, setOpened] = useState<ReadonlySet<string> | "all" | "none" | null>(null);
  const [chosen, setChosen] = useState<MapPod[]>([]);
  const [edge, setEdge] = useState<string>("");
  const [withSystem, setWithSystem] = useState(false);
  const changes = `${pods.changes.value} ${services.changes.value} ${networks.changes.value}`;
  const all = useMemo(() => podsOf(pods), [changes]);
  const isOpen = (group: string) => (opened === null ? all.length <= OPEN_PODS_MAX : opened === "all" || (opened !== "none" && opened.has(group)));
  const model = useMemo(
    () => build(networksOf(networks), all, servicesOf(services, withSystem), flows.filter((flow) => isShown(flow, withSystem)), isOpen, (status) => tone(status)),
    [changes, flows, opened, all, withSystem],
  );
  const failed = [pods, services, networks].find((feed) => feed.state.value === "failed")?.error.value;
  const shown = model.edges.find((each) => each.id === edge);
  return (
    <section class="view">
      <header class="view-head">
        <h1>{t().map}</h1>
        <span class="count">{all.length}</span>
        <LiveDot feed={pods} />
        <span class="space" />
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
      {(failed || problem) && <Problem text={failed?.message ?? problem} />}
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
          {shown ? <EdgePanel edge={shown} /> : <PodsPanel tenant={tenant} pods={chosen} flows={flows} />}
        </aside>
        <Legend />
      </div>
    </section>
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

function podsOf(feed: TableFeed): MapPod[] {
  const [ip, status] = [column(feed, "IP"), column(feed, "Status")];
  return [...feed.rows.values()].map((row) => podOf(row, String(row.cells[ip] ?? ""), String(row.cells[status] ?? ""))).filter((pod) => !["Completed", "Succeeded", "Failed"].includes(pod.status));
}

function servicesOf(feed: TableFeed, withSystem: boolean): { key: string; network: string }[] {
  return [...feed.rows.values()].filter((row) => withSystem || !isSystemService(row.object.metadata.name)).map((row) => ({ key: `${row.object.metadata.namespace}/${row.object.metadata.name}`, network: networkOf(row) }));
}

function networksOf(feed: TableFeed): { name: string; vpc: string; cidr: string }[] {
  const [vpc, cidr] = [column(feed, "VPC"), column(feed, "CIDR")];
  const shown = (cell: unknown) => (cell && cell !== "<none>" ? visible(cell) : "");
  return [...feed.rows.values()].map((row) => ({ name: row.object.metadata.name, vpc: shown(row.cells[vpc]), cidr: shown(row.cells[cidr]) }));
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
      made = new Graph(box.current, label, {
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
  useEffect(() => graph?.recolour(), [graph, theme.value]);
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
  if (node.kind === "group") return `${visible(node.label)}${node.isOpen ? "  ·  " : "\n"}${t().collapsed(node.pods.length)}`;
  return visible(node.label);
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
