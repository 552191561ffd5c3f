// Logs: of one pod, or of the pods of a workload together; followed, with search.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, json, lines, message } from "../api/http";
import { PODS, collection, one, query } from "../api/paths";
import type { Kind, KubeList, KubeObject } from "../api/types";
import { Button, Problem } from "../parts/basics";
import { logLine, visible } from "../parts/show";
import { t } from "../text";
import { containersOf } from "./containers";

const LINES_MAX = 20_000;
const TAIL = 500;
/** Streams that are open at the same time: a browser opens six connections to a server, for all tabs together. */
const FOLLOWED_MAX = 3;

interface LogLine {
  from: string;
  text: string;
}

function selectorOf(object: KubeObject): string {
  const selector = (object.spec?.["selector"] ?? {}) as { matchLabels?: Record<string, string> };
  return Object.entries(selector.matchLabels ?? {}).map(([name, value]) => `${name}=${value}`).join(",");
}

export function hasLogs(kind: Kind, object: KubeObject): boolean {
  return (kind.resource === "pods" && !kind.group) || (kind.group === "apps" || kind.group === "batch" ? selectorOf(object) !== "" : false);
}

export function LogsTab({ tenant, kind, object }: { tenant: string; kind: Kind; object: KubeObject }) {
  const isPod = kind.resource === "pods";
  const [container, setContainer] = useState("");
  const [isPrevious, setPrevious] = useState(false);
  const [isFollowing, setFollowing] = useState(true);
  const [isWrapped, setWrapped] = useState(false);
  const [search, setSearch] = useState("");
  const { all, problem, version } = useLogs(tenant, object, isPod, container, isPrevious);
  const wanted = search.toLowerCase();
  const found = useMemo(() => (wanted ? all.filter((line) => line.text.toLowerCase().includes(wanted)) : all), [version, wanted, all]);
  const names = containersOf(isPod ? object : { metadata: object.metadata, ...templateOf(object) });
  return (
    <div class="logs">
      <div class="tools">
        <input type="search" value={search} placeholder={`${t().search} (/)`} aria-label={t().search} onInput={(event) => setSearch(event.currentTarget.value)} />
        {names.length > 1 && (
          <select value={container} aria-label={t().container} onChange={(event) => setContainer(event.currentTarget.value)}>
            <option value="">{t().allContainers}</option>
            {names.map((each) => (
              <option key={each.name} value={each.name}>
                {visible(each.name)}
              </option>
            ))}
          </select>
        )}
        <Button kind="quiet" pressed={isFollowing} onClick={() => setFollowing(!isFollowing)}>
          {t().follow}
        </Button>
        <Button kind="quiet" pressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>
          {t().wrap}
        </Button>
        {isPod && (
          <Button kind="quiet" pressed={isPrevious} onClick={() => setPrevious(!isPrevious)}>
            {t().previous}
          </Button>
        )}
        <span class="space" />
        <span class="fine">{search ? t().matches(found.length) : t().lines(all.length)}</span>
      </div>
      {problem && <Problem text={problem} />}
      <LogLines lines={found} isWrapped={isWrapped} isFollowing={isFollowing} search={wanted} version={version} showFrom={!isPod || (!container && names.length > 1)} />
    </div>
  );
}

function templateOf(object: KubeObject): { spec: Record<string, unknown> } {
  const template = (object.spec?.["template"] ?? {}) as { spec?: Record<string, unknown> };
  return { spec: template.spec ?? {} };
}

function useLogs(tenant: string, object: KubeObject, isPod: boolean, container: string, isPrevious: boolean) {
  const [problem, setProblem] = useState("");
  const [version, setVersion] = useState(0);
  const all = useRef<LogLine[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    all.current = [];
    setProblem("");
    let isDrawing = false;
    const add = (line: LogLine) => {
      all.current.push(line);
      if (all.current.length > LINES_MAX) all.current.splice(0, all.current.length - LINES_MAX);
      if (isDrawing) return;
      isDrawing = true;
      setTimeout(() => {
        isDrawing = false;
        setVersion((old) => old + 1);
      }, 60);
    };
    const failed = (error: unknown) => abort.signal.aborted || setProblem(message(error));
    void sources(tenant, object, isPod, container)
      .then((found) => found.forEach((source, at) => void read(tenant, source, at < FOLLOWED_MAX && !isPrevious, isPrevious, abort.signal, add).catch(failed)))
      .catch(failed);
    return () => abort.abort();
  }, [object.metadata.uid, container, isPrevious]);
  return { all: all.current, problem, version };
}

interface Source {
  namespace: string;
  pod: string;
  container: string;
  from: string;
}

async function sources(tenant: string, object: KubeObject, isPod: boolean, container: string): Promise<Source[]> {
  const namespace = object.metadata.namespace ?? "";
  const path = collection(tenant, PODS, namespace) + query({ labelSelector: selectorOf(object), limit: 50 });
  const pods = isPod ? [object] : (await json<KubeList>("GET", path)).items;
  return pods.flatMap((pod) =>
    containersOf(pod)
      .filter((each) => !container || each.name === container)
      .map((each) => ({ namespace, pod: pod.metadata.name, container: each.name, from: isPod ? each.name : `${pod.metadata.name} ${each.name}` })),
  );
}

async function read(tenant: string, source: Source, isFollowing: boolean, isPrevious: boolean, signal: AbortSignal, add: (line: LogLine) => void): Promise<void> {
  const parameters = { container: source.container, tailLines: TAIL, follow: isFollowing || undefined, previous: isPrevious || undefined };
  const path = one(tenant, PODS, source.namespace, source.pod, "log") + query(parameters);
  const response = await call("GET", path, { accept: "*/*", signal });
  for await (const line of lines(response)) add({ from: source.from, text: logLine(line) });
}

const LINE_HEIGHT = 18;

function LogLines(props: { lines: LogLine[]; isWrapped: boolean; isFollowing: boolean; search: string; version: number; showFrom: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useEffect(() => {
    if (props.isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [props.version, props.isFollowing, props.lines.length]);
  const height = box.current?.clientHeight ?? 800;
  // Wrapped lines have different heights: only the last ones are drawn then.
  const first = props.isWrapped ? Math.max(0, props.lines.length - 1000) : Math.max(0, Math.floor(top / LINE_HEIGHT) - 20);
  const last = props.isWrapped ? props.lines.length : first + Math.ceil(height / LINE_HEIGHT) + 40;
  const shown = props.lines.slice(first, last);
  return (
    <div class={props.isWrapped ? "log wrapped" : "log"} ref={box} tabIndex={0} role="log" aria-label={t().logs} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
      {!props.lines.length && <p class="empty">{t().noLogs}</p>}
      <div class="log-inner" style={props.isWrapped ? {} : { height: `${props.lines.length * LINE_HEIGHT}px`, paddingTop: `${first * LINE_HEIGHT}px` }}>
        {shown.map((line, at) => (
          <div class="log-line" key={first + at}>
            {props.showFrom && <span class="from">{visible(line.from)}</span>}
            <Marked text={line.text} search={props.search} />
          </div>
        ))}
      </div>
    </div>
  );
}

function Marked({ text, search }: { text: string; search: string }) {
  if (!search) return <>{text}</>;
  const parts: preact.ComponentChildren[] = [];
  let from = 0;
  for (let at = text.toLowerCase().indexOf(search); at >= 0; at = text.toLowerCase().indexOf(search, from)) {
    parts.push(text.slice(from, at), <mark>{text.slice(at, at + search.length)}</mark>);
    from = at + search.length;
  }
  return <>{[...parts, text.slice(from)]}</>;
}
