// Draws lines over time with uPlot. Loaded only when somebody looks at a chart.
import uPlot from "uplot";

export interface Line {
  name: string;
  values: (number | null)[];
}

/** Lines differ by colour and by dashes. */
const DASHES: number[][] = [[], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3]];
export const LINES_MAX = DASHES.length;
const HEIGHT = 150;
/** Shown at least: the first samples are at the right, and lines grow to the left. */
const SECONDS_MIN = 120;
const FONT = "11px system-ui, sans-serif";

/** Which sample is under the pointer; the one before the first is none. */
function indexOf(plot: uPlot): number | null {
  const at = plot.cursor.idx;
  if (at === null || at === undefined) return null;
  const isShort = plot.series.slice(1).every((_, line) => plot.data[line + 1]?.[0] === null);
  return isShort ? (at > 0 ? at - 1 : null) : at;
}

export class Plot {
  private readonly plot: uPlot;
  private readonly observer: ResizeObserver;

  constructor(private readonly box: HTMLElement, names: string[], format: (value: number) => string, onHover: (index: number | null) => void) {
    const css = getComputedStyle(document.documentElement);
    const colour = (name: string) => css.getPropertyValue(name).trim();
    const clock = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
    const axis = { stroke: colour("--muted-text"), font: FONT, grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    this.plot = new uPlot(
      {
        width: Math.max(100, box.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false },
        scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        axes: [{ ...axis, space: 90, values: (_, splits) => splits.map((seconds) => clock.format(seconds * 1000)) }, { ...axis, size: 64, values: (_, splits) => splits.map(format) }],
        series: [{}, ...names.map((_, at) => ({ stroke: colour(`--series-${at + 1}`), width: 1.6, dash: DASHES[at] ?? [], points: { show: (plot: uPlot) => (plot.data[0]?.length ?? 0) <= 2 } }))],
        hooks: { setCursor: [(plot) => onHover(indexOf(plot))] },
      },
      [[], ...names.map(() => [])],
      box,
    );
    this.observer = new ResizeObserver(() => this.plot.setSize({ width: Math.max(100, this.box.clientWidth), height: HEIGHT }));
    this.observer.observe(box);
  }

  show(times: number[], lines: Line[]): void {
    const start = (times.at(-1) ?? 0) - SECONDS_MIN;
    const isShort = (times[0] ?? 0) > start;
    const before = <T>(value: T, values: T[]) => (isShort ? [value, ...values] : values);
    this.plot.setData([before(start, times), ...lines.map((line) => before(null, line.values))] as uPlot.AlignedData);
  }

  close(): void {
    this.observer.disconnect();
    this.plot.destroy();
  }
}
