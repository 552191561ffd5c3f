// Where everything is: a grid in every box, boxes beside each other. Nothing moves by itself, and it takes no time.
import { isRim, type MapNode } from "./model";

/** The middle of a node; with a size, if others are in it. */
export interface Place {
  x: number;
  y: number;
  width?: number;
  height?: number;
}

interface Box {
  width: number;
  height: number;
  place: (x: number, y: number) => void;
}

const SMALL = { width: 96, height: 58 };
const LARGE = { width: 150, height: 92 };
const LARGE_NODES_MAX = 40;
const GAP = 40;
const HEAD = 26;
/** For what is written below the nodes on the lower border of a box. */
const RIM = 44;

/** `aspect` is the width of the window by its height. */
export function layout(nodes: MapNode[], aspect: number): Map<string, Place> {
  const inside = new Map<string, MapNode[]>();
  for (const node of nodes) inside.set(node.parent ?? "", [...(inside.get(node.parent ?? "") ?? []), node]);
  const points = new Map<string, Place>();
  // The fewer there are, the more room for the lines between them and what is written on these.
  const cell = nodes.length <= LARGE_NODES_MAX ? LARGE : SMALL;
  const ratio = Math.min(5, Math.max(0.5, aspect * 2.2));

  const boxOf = (node: MapNode): Box => {
    const children = inside.get(node.id);
    if (!children) return { ...cell, place: (x, y) => void points.set(node.id, { x: x + cell.width / 2, y: y + cell.height / 2 }) };
    const rim = children.filter((each) => isRim(each.kind));
    const packed = stacked(children.filter((each) => !isRim(each.kind)));
    const [width, height] = [Math.max(packed.width, rim.length * cell.width) + GAP, packed.height + GAP];
    return {
      width,
      height: height + HEAD + (rim.length ? RIM : 0),
      place: (x, y) => {
        points.set(node.id, { x: x + width / 2, y: y + HEAD + height / 2, width, height });
        packed.place(x + (width - packed.width) / 2, y + GAP / 2 + HEAD);
        // On the lower border, the same distance from each other.
        rim.forEach((each, at) => points.set(each.id, { x: x + ((at + 0.5) * width) / rim.length, y: y + HEAD + height }));
      },
    };
  };

  /** What has nothing in it above, boxes below. */
  const stacked = (children: MapNode[]): Box => {
    const boxes = pack(children.filter((node) => inside.has(node.id)).map(boxOf), GAP / 2, ratio, 0);
    const leaves = pack(children.filter((node) => !inside.has(node.id)).map(boxOf), 8, ratio, boxes.width);
    const top = leaves.height && boxes.height ? leaves.height + GAP / 2 : leaves.height;
    return {
      width: Math.max(boxes.width, leaves.width),
      height: top + boxes.height,
      place: (x, y) => {
        leaves.place(x, y);
        boxes.place(x, y + top);
      },
    };
  };

  const roots = inside.get("") ?? [];
  const main = stacked(roots.filter((node) => node.kind !== "outside"));
  main.place(0, 0);
  roots
    .filter((node) => node.kind === "outside")
    .forEach((node, at) => points.set(node.id, { x: main.width / 2, y: main.height + 80 + at * cell.height }));
  return points;
}

/** Boxes in rows: together about `ratio` times as wide as high, but at least as wide as given. */
function pack(boxes: Box[], gap: number, ratio: number, widthMin: number): Box {
  const area = boxes.reduce((sum, box) => sum + (box.width + gap) * (box.height + gap), 0);
  const limit = Math.max(widthMin, Math.sqrt(area * ratio), ...boxes.map((box) => box.width));
  const places: { box: Box; x: number; y: number }[] = [];
  let [x, y, row, width] = [0, 0, 0, 0];
  for (const box of [...boxes].sort((a, b) => a.height - b.height)) {
    if (x > 0 && x + box.width > limit) {
      y += row + gap;
      x = row = 0;
    }
    places.push({ box, x, y });
    x += box.width + gap;
    row = Math.max(row, box.height);
    width = Math.max(width, x - gap);
  }
  return { width, height: y + row, place: (left, top) => places.forEach((each) => each.box.place(left + each.x, top + each.y)) };
}
