// Values over the time that a page is open: nothing older is known, and nothing is kept.
import { signal } from "@preact/signals";

const SAMPLES_MAX = 240;

export class History {
  readonly times: number[] = [];
  /** As long as `times`; null where there was no value. */
  readonly lines = new Map<string, (number | null)[]>();
  /** Grows with every sample; read it to be drawn again. */
  readonly changes = signal(0);

  add(values: ReadonlyMap<string, number>, seconds = Date.now() / 1000): void {
    for (const name of values.keys()) if (!this.lines.has(name)) this.lines.set(name, this.times.map(() => null));
    this.times.push(seconds);
    for (const [name, line] of this.lines) line.push(values.get(name) ?? null);
    if (this.times.length > SAMPLES_MAX) {
      this.times.shift();
      this.lines.forEach((line) => line.shift());
    }
    for (const [name, line] of this.lines) if (line.every((value) => value === null)) this.lines.delete(name);
    this.changes.value++;
  }

  /** The names with the largest last values first. */
  largest(count: number): string[] {
    const last = (name: string) => this.lines.get(name)?.at(-1) ?? -1;
    return [...this.lines.keys()].sort((a, b) => last(b) - last(a)).slice(0, count);
  }
}
