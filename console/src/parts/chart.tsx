// Lines over time, with their names and values beside them.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Plot } from "../chart/plot";
import type { History } from "../api/history";
import { scheme } from "../state/settings";
import { t } from "../text";
import { visible } from "./show";

const LINES_MAX = 6;

export function Chart({ title, history, format }: { title: string; history: History; format: (value: number) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const [plot, setPlot] = useState<Plot | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const version = history.changes.value;
  const names = history.largest(LINES_MAX).sort();
  const key = names.join("\n");
  const hasLines = names.length > 0;
  useEffect(() => {
    if (!hasLines) return;
    let made: Plot | null = null;
    let isShown = true;
    void import("../chart/plot").then(({ Plot }) => {
      if (!isShown || !box.current) return;
      made = new Plot(box.current, names, format, setHovered);
      setPlot(made);
    });
    return () => {
      isShown = false;
      made?.close();
      setPlot(null);
    };
  }, [key, scheme.value]);
  useEffect(() => plot?.show(history.times, names.map((name) => ({ name, values: history.lines.get(name) ?? [] }))), [plot, version]);
  const at = hovered ?? history.times.length - 1;
  const valueOf = (name: string) => history.lines.get(name)?.[at];
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div class="plot" ref={box} role="img" aria-label={`${title}: ${names.map((name) => `${visible(name)} ${format(valueOf(name) ?? 0)}`).join(", ")}`} />
      {!hasLines && <p class="fine">{t().noMeasurements}</p>}
      <ul class="chart-names">
        {names.map((name, place) => {
          const value = valueOf(name);
          return (
            <li key={name}>
              <span class={`swatch series-${place + 1}`} aria-hidden="true" />
              {visible(name)} <b>{value === null || value === undefined ? "–" : format(value)}</b>
            </li>
          );
        })}
      </ul>
    </figure>
  );
}
