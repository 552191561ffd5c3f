// Collections that follow the server: a list, then a watch from its revision on. No polling.
//
// A feed that loses its connection says that it is stale, and goes on where it was. In a hidden tab it holds no
// connection (browsers allow six to a server), and catches up when the tab is shown again; so it does after the
// computer has slept.
import { computed, signal } from "@preact/signals";
import { ApiError, TABLE, call, json, lines } from "./http";
import { query } from "./paths";
import type { Column, KubeList, KubeObject, ListMeta, Meta, Table, TableRow, WatchEvent } from "./types";

export type FeedState = "loading" | "live" | "stale" | "failed";

const PAGE_ITEMS = 2000;
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 15_000;
const HIDDEN_MS_MAX = 20_000;
const SLEEP_MS = 20_000;

const active = signal<readonly Feed[]>([]);

/** Whether something on screen may be out of date. */
export const isStale = computed(() => active.value.some((feed) => feed.state.value === "stale"));

export abstract class Feed {
  readonly state = signal<FeedState>("loading");
  readonly error = signal<ApiError | null>(null);
  /** Grows with every change; read it to be drawn again. */
  readonly changes = signal(0);
  private resourceVersion = "";
  private abort: AbortController | null = null;
  private isDrawing = false;
  private askMs = 0;

  constructor(
    private readonly path: string,
    private readonly parameters: Record<string, string> = {},
    private readonly accept = "application/json",
  ) {}

  protected abstract replace(pages: ListMeta[]): void;
  protected abstract apply(event: WatchEvent<unknown>): string | undefined;

  /** Lists again every `ms` instead of watching, for what seldom changes: browsers allow six connections to a server, for all windows
   * together, and a watch is one. */
  asking(ms: number): this {
    this.askMs = ms;
    return this;
  }

  /** Follows until the result is called. */
  start(): () => void {
    active.value = [...active.peek(), this];
    this.resume();
    return () => {
      active.value = active.peek().filter((each) => each !== this);
      this.pause();
    };
  }

  pause(): void {
    this.abort?.abort();
    this.abort = null;
  }

  resume(): void {
    if (this.abort) return;
    this.abort = new AbortController();
    void this.follow(this.abort.signal);
  }

  /** Lists again, for what changes without an event. */
  async refresh(): Promise<void> {
    if (this.abort && this.state.peek() === "live") await this.list(this.abort.signal);
  }

  restart(): void {
    this.pause();
    this.resume();
  }

  private async follow(aborted: AbortSignal): Promise<void> {
    let retry = RETRY_MS_MIN;
    while (!aborted.aborted) {
      try {
        if (this.askMs || !this.resourceVersion) await this.list(aborted);
        const began = performance.now();
        if (!this.askMs) await this.watch(aborted, () => (retry = RETRY_MS_MIN));
        // A server that ends watches at once is not asked again and again.
        const isShort = performance.now() - began < RETRY_MS_MIN;
        if (this.askMs || isShort) await pause(this.askMs || RETRY_MS_MIN);
      } catch (error) {
        if (aborted.aborted) return;
        if (!this.mayRetry(error)) return;
        await pause(retry * (0.75 + Math.random() / 2));
        retry = Math.min(retry * 2, RETRY_MS_MAX);
      }
    }
  }

  private mayRetry(error: unknown): boolean {
    const api = error instanceof ApiError ? error : new ApiError(0, "", String(error));
    if (api.code === 410) {
      this.resourceVersion = "";
      return true;
    }
    this.error.value = api;
    if (api.code === 0 || api.code === 408 || api.code === 429 || api.code >= 500) {
      this.state.value = this.state.peek() === "loading" ? "loading" : "stale";
      return true;
    }
    this.state.value = "failed";
    return false;
  }

  private async list(signal: AbortSignal): Promise<void> {
    const pages: ListMeta[] = [];
    let next = "";
    let first: ListMeta = {};
    do {
      const path = this.path + query({ limit: PAGE_ITEMS, ...this.parameters, continue: next });
      const page = await json<{ metadata: ListMeta }>("GET", path, undefined, { accept: this.accept, signal });
      if (!pages.length) first = page.metadata;
      pages.push(page as unknown as ListMeta);
      next = page.metadata.continue ?? "";
    } while (next);
    this.replace(pages);
    this.resourceVersion = first.resourceVersion ?? "";
    this.settle();
  }

  private async watch(signal: AbortSignal, onEvent: () => void): Promise<void> {
    const parameters = { ...this.parameters, watch: 1, allowWatchBookmarks: true, resourceVersion: this.resourceVersion };
    const response = await call("GET", this.path + query(parameters), { accept: this.accept, signal });
    this.settle();
    for await (const line of lines(response)) {
      if (!line) continue;
      const event = JSON.parse(line) as WatchEvent<KubeObject & { code?: number; message?: string; reason?: string }>;
      if (event.type === "ERROR") {
        const { code = 500, reason = "", message = "" } = event.object;
        throw new ApiError(code, reason, message);
      }
      this.resourceVersion = this.apply(event) ?? this.resourceVersion;
      onEvent();
      if (event.type !== "BOOKMARK") this.draw();
    }
  }

  private settle(): void {
    this.state.value = "live";
    this.error.value = null;
    this.draw();
  }

  /** One drawing per frame, however many events there are. */
  private draw(): void {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.changes.value++;
    });
  }
}

export function keyOf(meta: Meta): string {
  return meta.uid ?? `${meta.tenant ?? ""}/${meta.namespace ?? ""}/${meta.name}`;
}

/** Rows with the columns that the server has for the kind. */
export class TableFeed extends Feed {
  columns: Column[] = [];
  readonly rows = new Map<string, TableRow>();

  constructor(path: string, parameters: Record<string, string> = {}) {
    super(path, { ...parameters, includeObject: "Metadata" }, TABLE);
  }

  protected replace(pages: ListMeta[]): void {
    this.rows.clear();
    for (const page of pages as unknown as Table[]) {
      if (page.columnDefinitions?.length) this.columns = page.columnDefinitions;
      for (const row of page.rows ?? []) this.rows.set(keyOf(row.object.metadata), row);
    }
  }

  protected apply(event: WatchEvent<unknown>): string | undefined {
    const table = event.object as Table;
    if (table.columnDefinitions?.length) this.columns = table.columnDefinitions;
    let version = table.metadata?.resourceVersion;
    for (const row of table.rows ?? []) {
      const meta = row.object.metadata;
      version = meta.resourceVersion ?? version;
      if (event.type === "DELETED") this.rows.delete(keyOf(meta));
      else if (event.type !== "BOOKMARK") this.rows.set(keyOf(meta), row);
    }
    return version || undefined;
  }
}

/** Whole objects. */
export class ObjectFeed<T extends KubeObject = KubeObject> extends Feed {
  readonly items = new Map<string, T>();

  protected replace(pages: ListMeta[]): void {
    this.items.clear();
    for (const page of pages as unknown as KubeList<T>[]) {
      for (const item of page.items) this.items.set(keyOf(item.metadata), item);
    }
  }

  protected apply(event: WatchEvent<unknown>): string | undefined {
    const object = event.object as T;
    if (event.type === "DELETED") this.items.delete(keyOf(object.metadata));
    else if (event.type !== "BOOKMARK") this.items.set(keyOf(object.metadata), object);
    return object.metadata.resourceVersion;
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Called once: pauses the feeds of a hidden tab, and restarts them after the computer has slept. */
export function followVisibility(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => active.peek().forEach((feed) => feed.pause()), HIDDEN_MS_MAX);
    else active.peek().forEach((feed) => feed.resume());
  });
  const restart = () => document.hidden || active.peek().forEach((feed) => feed.restart());
  window.addEventListener("online", restart);
  let last = Date.now();
  setInterval(() => {
    if (Date.now() - last > SLEEP_MS) restart();
    last = Date.now();
  }, 5_000);
}
