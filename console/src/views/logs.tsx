// Logs: of one pod, or of the pods of a workload together; followed, with search.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ObjectFeed } from "../api/feed";
import { LogReader, type LogLine, type LogSource } from "../api/logs";
import { PODS, collection } from "../api/paths";
import type { Kind, KubeObject } from "../api/types";
import { Button, Problem, useFeed } from "../parts/basics";
import { logLine, visible } from "../parts/show";
import { t } from "../text";
import { containersOf } from "./containers";

const PODS_MAX = 50;

interface Selector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

/** The labels of a workload's or a service's pods, as a query has them; empty if it has none. */
export function selectorOf(kind: Kind, object: KubeObject): string {
  const given = object.spec?.["selector"];
  if (!given || typeof given !== "object") return "";
  const isPlain = kind.resource === "services" || kind.resource === "replicationcontrollers";
  const selector: Selector = isPlain ? { matchLabels: given as Record<string, string> } : given;
  const words: Record<string, (key: string, values: string[]) => string> = {
    In: (key, values) => `${key} in (${values.join(",")})`,
    NotIn: (key, values) => `${key} notin (${values.join(",")})`,
    Exists: (key) => key,
    DoesNotExist: (key) => `!${key}`,
  };
  return [
    ...Object.entries(selector.matchLabels ?? {}).map(([name, value]) => `${name}=${value}`),
    ...(selector.matchExpressions ?? []).flatMap((each) => words[each.operator]?.(each.key, each.values ?? []) ?? []),
  ].join(",");
}

export function isPod(kind: Kind): boolean {
  return kind.resource === "pods" && !kind.group;
}

export function hasPods(kind: Kind, object: KubeObject): boolean {
  return isPod(kind) || (["", "apps", "batch"].includes(kind.group) && kind.namespaced && selectorOf(kind, object) !== "");
}

interface Props {
  tenant: string;
  kind: Kind;
  object: KubeObject;
}

export function LogsTab(props: Props) {
  return isPod(props.kind) ? <Logs {...props} pods={[props.object]} isOne /> : <LogsOfMany {...props} />;
}

/** Follows the pods too: those that start later are heard as well. */
function LogsOfMany(props: Props) {
  const path = collection(props.tenant, PODS, props.object.metadata.namespace ?? "");
  const selector = selectorOf(props.kind, props.object);
  const feed = useFeed(() => new ObjectFeed(path, { labelSelector: selector }), `${path}?${selector}`);
  void feed.changes.value;
  const pods = [...feed.items.values()].slice(0, PODS_MAX);
  if (feed.error.value && feed.state.value === "failed") return <Problem text={feed.error.value.message} />;
  return <Logs {...props} pods={pods} />;
}

function Logs({ tenant, pods, isOne }: Props & { pods: KubeObject[]; isOne?: boolean }) {
  const [pod, setPod] = useState("");
  const [container, setContainer] = useState("");
  const [isPrevious, setPrevious] = useState(false);
  const [isFollowing, setFollowing] = useState(true);
  const [isWrapped, setWrapped] = useState(false);
  const [withTimes, setTimes] = useState(false);
  const [search, setSearch] = useState("");
  const reader = useReader(tenant, sourcesOf(pods, pod, container, !!isOne), isPrevious, `${pod}/${container}`);
  const version = reader.changes.value;
  const all = reader.lines;
  const wanted = search.toLowerCase();
  const found = useMemo(() => (wanted ? all.filter((line) => `${line.from} ${line.text}`.toLowerCase().includes(wanted)) : all), [version, wanted, all]);
  const names = [...new Set(pods.flatMap(containersOf).map((each) => each.name))];
  return (
    <div class="logs">
      <div class="tools">
        <input type="search" value={search} placeholder={`${t().search} (/)`} aria-label={t().search} onInput={(event) => setSearch(event.currentTarget.value)} />
        {!isOne && <Choice label={t().pods} all={`${t().pods}: ${pods.length}`} names={pods.map((each) => each.metadata.name)} value={pod} onChoose={setPod} />}
        {names.length > 1 && <Choice label={t().container} all={t().allContainers} names={names} value={container} onChoose={setContainer} />}
        <Toggle is={isFollowing} set={setFollowing} text={t().follow} />
        <Toggle is={isWrapped} set={setWrapped} text={t().wrap} />
        <Toggle is={withTimes} set={setTimes} text={t().timestamps} />
        <Toggle is={isPrevious} set={setPrevious} text={t().previous} />
        <span class="space" />
        <span class="fine">{search ? t().matches(found.length) : t().lines(all.length)}</span>
      </div>
      {reader.problem.value && <Problem text={reader.problem.value} />}
      <LogLines lines={found} isWrapped={isWrapped} isFollowing={isFollowing} search={wanted} version={version} showFrom={!isOne || (!container && names.length > 1)} withTimes={withTimes} />
    </div>
  );
}

function Toggle({ is, set, text }: { is: boolean; set: (next: boolean) => void; text: string }) {
  return (
    <Button kind="quiet" pressed={is} onClick={() => set(!is)}>
      {text}
    </Button>
  );
}

function Choice(props: { label: string; all: string; names: string[]; value: string; onChoose: (name: string) => void }) {
  return (
    <select value={props.value} aria-label={props.label} onChange={(event) => props.onChoose(event.currentTarget.value)}>
      <option value="">{props.all}</option>
      {props.names.map((name) => (
        <option key={name} value={name}>
          {visible(name)}
        </option>
      ))}
    </select>
  );
}

function sourcesOf(pods: KubeObject[], pod: string, container: string, isOne: boolean): LogSource[] {
  return pods
    .filter((each) => !pod || each.metadata.name === pod)
    .flatMap((each) =>
      containersOf(each)
        .filter(({ name }) => !container || name === container)
        .map(({ name }) => ({ namespace: each.metadata.namespace ?? "", pod: each.metadata.name, container: name, name: isOne ? name : `${each.metadata.name} ${name}` })),
    );
}

function useReader(tenant: string, sources: LogSource[], isPrevious: boolean, chosen: string): LogReader {
  const reader = useMemo(() => new LogReader(tenant, isPrevious, logLine), [tenant, isPrevious, chosen]);
  useEffect(() => () => reader.close(), [reader]);
  useEffect(() => reader.add(sources));
  return reader;
}

const LINE_HEIGHT = 18;

function LogLines(props: { lines: LogLine[]; isWrapped: boolean; isFollowing: boolean; search: string; version: number; showFrom: boolean; withTimes: boolean }) {
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
            {props.withTimes && <span class="fine">{visible(line.time)} </span>}
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
