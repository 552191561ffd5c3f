// Draws the model with cytoscape. Loaded only when somebody looks at the map.
import cytoscape, { type Core, type ElementDefinition, type StylesheetStyle } from "cytoscape";
import { layout, type Place } from "./layout";
import type { MapEdge, MapModel, MapNode } from "./model";

export interface GraphEvents {
  onNode: (node: MapNode) => void;
  onEdge: (edge: MapEdge) => void;
  onNothing: () => void;
}

/** Connections that nobody has seen for longer are pale. */
export const RECENT_MS = 30_000;

/** What is in another box is drawn above it. */
const DEPTHS: Record<string, number> = { tenant: 1, network: 2, subnet: 3, group: 4 };

export class Graph {
  private readonly core: Core;
  private model: MapModel = { nodes: [], edges: [] };
  private shape = "";
  private places = new Map<string, Place>();

  constructor(container: HTMLElement, private readonly text: (node: MapNode) => string, private readonly edgeText: (edge: MapEdge) => string, events: GraphEvents) {
    // cytoscape would add a style sheet to the page, which the page's policy forbids, unless there is one of this name.
    container.id = "__________cytoscape_stylesheet";
    this.core = cytoscape({ container, textureOnViewport: true, hideEdgesOnViewport: false, minZoom: 0.05, maxZoom: 2.5, boxSelectionEnabled: false, autoungrabify: true });
    this.recolour();
    this.core.on("tap", (event) => {
      const id = event.target === this.core ? "" : (event.target.id() as string);
      const node = this.model.nodes.find((each) => each.id === id);
      const edge = this.model.edges.find((each) => each.id === id);
      if (node) events.onNode(node);
      else if (edge) events.onEdge(edge);
      else events.onNothing();
    });
  }

  /** Elements that stay keep their place; positions change only when nodes come or go. */
  show(model: MapModel): void {
    this.model = model;
    const shape = model.nodes.map((node) => node.id).sort().join("\n");
    const isNew = shape !== this.shape;
    this.core.batch(() => {
      const places = isNew ? layout(model.nodes, this.core.width() / Math.max(1, this.core.height())) : this.places;
      this.places = places;
      const wanted = new Map([...model.nodes.map((node) => this.nodeElement(node, places.get(node.id))), ...model.edges.map((edge) => this.edgeElement(edge))].map((each) => [each.data.id!, each]));
      this.core
        .elements()
        // A group that was opened or closed is another kind of node.
        .filter((element) => wanted.get(element.id())?.data.box !== element.data("box") || !wanted.has(element.id()))
        .remove();
      const known = new Map(this.core.elements().map((element) => [element.id(), element]));
      const fresh: ElementDefinition[] = [];
      for (const [id, element] of wanted) {
        const found = known.get(id);
        if (!found) fresh.push(element);
        else if (Object.entries(element.data).some(([key, value]) => found.data(key) !== value)) found.data(element.data);
      }
      this.core.add(fresh);
      if (isNew) this.core.nodes().positions((node) => places.get(node.id()) ?? { x: 0, y: 0 });
    });
    if (isNew) {
      this.shape = shape;
      this.fit();
    }
  }

  fit(): void {
    this.core.resize();
    this.core.fit(undefined, 30);
    if (this.core.zoom() > 1.2) this.core.zoom({ level: 1.2, renderedPosition: { x: this.core.width() / 2, y: this.core.height() / 2 } });
    this.core.center();
  }

  select(ids: string[]): void {
    this.core.elements().unselect();
    ids.forEach((id) => this.core.getElementById(id).select());
  }

  close(): void {
    this.core.destroy();
  }

  recolour(): void {
    this.core.style(styles());
  }

  /** Boxes are nodes of their own below what is in them: cytoscape's compound nodes are slow, and we know the places. */
  private nodeElement(node: MapNode, place: Place | undefined): ElementDefinition {
    const data: ElementDefinition["data"] = { id: node.id, kind: node.kind, tone: node.tone ?? "", label: this.text(node) };
    if (place?.width) Object.assign(data, { box: DEPTHS[node.kind] ?? 1, width: place.width, height: place.height });
    return { group: "nodes", data, position: place ?? { x: 0, y: 0 } };
  }

  private edgeElement(edge: MapEdge): ElementDefinition {
    const { id, source, target, verdict } = edge;
    const age = edge.seen < Date.now() - RECENT_MS ? "old" : "new";
    return { group: "edges", data: { id, source, target, verdict, age, label: this.edgeText(edge), weight: 1 + Math.round(2 * Math.log10(1 + edge.bytes)) / 4 } };
  }
}

function styles(): StylesheetStyle[] {
  const css = getComputedStyle(document.documentElement);
  const colour = (name: string) => css.getPropertyValue(name).trim();
  const label = { "font-family": "system-ui, sans-serif", "font-size": 11, "min-zoomed-font-size": 6, color: colour("--text"), label: "data(label)", "text-wrap": "wrap", "text-max-width": "92px", "text-overflow-wrap": "anywhere" };
  const box = { ...label, "text-valign": "top", "text-halign": "center", "text-margin-y": -4, "text-wrap": "none", shape: "round-rectangle", "border-width": 1, "border-color": colour("--line"), width: "data(width)", height: "data(height)", "z-index": "data(box)" };
  const rim = { width: 28, height: 28, "border-width": 2, "border-color": colour("--panel") };
  return [
    { selector: "node", style: { ...label, shape: "ellipse", width: 22, height: 22, "z-index": 20, "z-index-compare": "manual", "background-color": colour("--muted"), "text-valign": "bottom", "text-margin-y": 4 } },
    { selector: "node[kind='tenant'][box]", style: { ...box, "font-size": 16, "font-weight": 600, "border-width": 2, "border-color": colour("--line-strong"), "background-color": colour("--hover"), "background-opacity": 1 } },
    { selector: "node[kind='network'][box]", style: { ...box, "font-size": 14, "background-color": colour("--panel"), "background-opacity": 1 } },
    { selector: "node[kind='subnet'][box]", style: { ...box, "border-style": "dashed", "background-color": colour("--page"), "background-opacity": 0.6 } },
    { selector: "node[kind='group']", style: { shape: "round-rectangle", width: 40, height: 26, "border-width": 3, "border-style": "double", "border-color": colour("--page") } },
    { selector: "node[kind='group'][box]", style: { ...box, "background-color": colour("--page"), "background-opacity": 1, "border-style": "dotted" } },
    { selector: "node[kind='service']", style: { shape: "diamond", width: 26, height: 26, "background-color": colour("--accent") } },
    { selector: "node[kind='gateway']", style: { ...rim, shape: "pentagon", "background-color": colour("--flow") } },
    { selector: "node[kind='balancer']", style: { ...rim, shape: "diamond", "background-color": colour("--accent") } },
    { selector: "node[kind='ingress']", style: { ...rim, shape: "rhomboid", "background-color": colour("--accent") } },
    { selector: "node[kind='egress']", style: { ...rim, shape: "vee", "background-color": colour("--flow") } },
    { selector: "node[kind='outside']", style: { shape: "round-hexagon", width: 60, height: 34, "background-color": colour("--muted") } },
    { selector: "node[tone='good'][!box]", style: { "background-color": colour("--good") } },
    { selector: "node[tone='warn'][!box]", style: { "background-color": colour("--warn"), shape: "round-triangle" } },
    { selector: "node[tone='bad'][!box]", style: { "background-color": colour("--bad"), shape: "octagon" } },
    { selector: "node:selected", style: { "border-width": 3, "border-style": "solid", "border-color": colour("--accent") } },
    {
      selector: "edge",
      style: {
        width: "data(weight)", "z-index": 10, "z-index-compare": "manual", "curve-style": "bezier", "target-arrow-shape": "triangle", "line-color": colour("--flow"), "target-arrow-color": colour("--flow"),
        "font-size": 10, "min-zoomed-font-size": 6, color: colour("--muted-text"), label: "data(label)", "text-background-color": colour("--panel"), "text-background-opacity": 0.9, "text-background-padding": "2px", "text-wrap": "wrap", "text-max-width": "400px",
      },
    },
    { selector: "edge[verdict='dropped']", style: { "line-style": "dashed", "line-color": colour("--bad"), "target-arrow-color": colour("--bad"), "target-arrow-shape": "tee", color: colour("--bad-text"), "font-weight": 600, "z-index": 15 } },
    { selector: "edge[age='old']", style: { opacity: 0.35, "text-opacity": 0, "z-index": 5 } },
    { selector: "edge:selected", style: { "underlay-color": colour("--accent"), "underlay-opacity": 0.35, "underlay-padding": 4, opacity: 1, "text-opacity": 1 } },
  ] as unknown as StylesheetStyle[];
}
