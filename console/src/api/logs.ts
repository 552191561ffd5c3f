// The output of containers, of several pods together, in the order of time.
import { signal } from "@preact/signals";
import { pause } from "./feed";
import { call, lines, message } from "./http";
import { PODS, one, query } from "./paths";

export interface LogSource {
  namespace: string;
  pod: string;
  container: string;
  /** How its lines are marked. */
  name: string;
}

export interface LogLine {
  from: string;
  time: string;
  text: string;
}

const LINES_MAX = 20_000;
const TAIL = 500;
/** Streams that are open at the same time: a browser opens six connections to a server, for all tabs together. What
 * others write is asked for. */
const FOLLOWED_MAX = 2;
const ASK_MS_MIN = 2_000;
const ASK_MS_MAX = 30_000;
const DRAW_MS = 60;

export class LogReader {
  lines: LogLine[] = [];
  /** Grows when lines come; read it to be drawn again. */
  readonly changes = signal(0);
  readonly problem = signal("");
  private readonly abort = new AbortController();
  /** Of each container that is read: the time of its last line. */
  private readonly last = new Map<string, string>();
  private followed = 0;
  private isDrawing = false;

  constructor(
    private readonly tenant: string,
    private readonly isPrevious: boolean,
    private readonly shown: (text: string) => string,
  ) {}

  /** Begins with those that are new. */
  add(sources: readonly LogSource[]): void {
    for (const source of sources) {
      const key = `${source.namespace}/${source.pod}/${source.container}`;
      if (this.last.has(key)) continue;
      this.last.set(key, "");
      void this.run(source, key);
    }
  }

  close(): void {
    this.abort.abort();
  }

  private async run(source: LogSource, key: string): Promise<void> {
    let wait = ASK_MS_MIN;
    while (!this.abort.signal.aborted) {
      const before = this.last.get(key);
      const isFollowed = !this.isPrevious && this.followed < FOLLOWED_MAX;
      if (isFollowed) this.followed++;
      try {
        if (!document.hidden) await this.take(source, key, isFollowed);
      } catch (error) {
        if (!this.abort.signal.aborted) this.problem.value = `${source.name}: ${message(error)}`;
      } finally {
        if (isFollowed) this.followed--;
      }
      if (this.isPrevious) return;
      wait = this.last.get(key) === before ? Math.min(2 * wait, ASK_MS_MAX) : ASK_MS_MIN;
      await pause(wait);
    }
  }

  private async take(source: LogSource, key: string, isFollowed: boolean): Promise<void> {
    const after = this.last.get(key) ?? "";
    const from = after ? { sinceTime: after } : { tailLines: TAIL };
    const parameters = { ...from, container: source.container, timestamps: true, follow: isFollowed || undefined, previous: this.isPrevious || undefined };
    const path = one(this.tenant, PODS, source.namespace, source.pod, "log") + query(parameters);
    const response = await call("GET", path, { accept: "*/*", signal: this.abort.signal });
    this.problem.value = "";
    for await (const line of lines(response)) {
      const at = line.indexOf(" ");
      const time = at < 0 ? line : line.slice(0, at);
      if (time <= after) continue;
      this.last.set(key, time);
      this.push({ from: source.name, time, text: this.shown(at < 0 ? "" : line.slice(at + 1)) });
    }
  }

  private push(line: LogLine): void {
    this.lines.push(line);
    if (this.isDrawing) return;
    this.isDrawing = true;
    setTimeout(() => {
      this.isDrawing = false;
      if (this.last.size > 1) this.lines.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
      if (this.lines.length > LINES_MAX) this.lines.splice(0, this.lines.length - LINES_MAX);
      this.changes.value++;
    }, DRAW_MS);
  }
}
