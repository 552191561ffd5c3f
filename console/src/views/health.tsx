// For ring0: how every part of the system is, which limits tenants have hit, what went wrong lately.
import { useMemo, useState } from "preact/hooks";
import { ObjectFeed, TableFeed } from "../api/feed";
import { apiServicePart, leaders, nodePart, planePart, serverHealth, type Part } from "../api/health";
import { droppedPackets, fullQuotas, refusedRequests, type LimitHit } from "../api/limits";
import { ALL, API_SERVICES, EVENTS, NODES, PODS, SYSTEM, TENANTS, collection } from "../api/paths";
import { Badge, LiveDot, Problem, useFeed } from "../parts/basics";
import { useRepeated } from "../parts/repeated";
import { percent, visible } from "../parts/show";
import { tenantLink } from "../parts/topbar";
import { objectLink } from "../state/route";
import { t } from "../text";
import { EventList, newest, type EventObject } from "./events";
import { isAsleep } from "./tenant-columns";

const ASK_MS = 5_000;
const LIMITS_MS = 30_000;
const EVENTS_SHOWN = 30;
const TONES = { healthy: "good", degraded: "warn", failing: "bad", off: "" } as const;
const ORDER: Part["state"][] = ["failing", "degraded", "healthy", "off"];

export function HealthView() {
  const nodes = useFeed(() => new ObjectFeed(collection(SYSTEM, NODES)), "health nodes");
  const tenants = useFeed(() => new ObjectFeed(collection(SYSTEM, TENANTS)).asking(ASK_MS), "health tenants");
  const services = useFeed(() => new ObjectFeed(collection(ALL, API_SERVICES)).asking(LIMITS_MS), "health api services");
  const pods = useFeed(() => new TableFeed(collection(ALL, PODS)).asking(LIMITS_MS), "health pods");
  const events = useFeed(() => new ObjectFeed<EventObject>(collection(ALL, EVENTS), { fieldSelector: "type=Warning" }), "health warnings");
  const [server, setServer] = useState<Part | null>(null);
  const [leading, setLeading] = useState<Part[]>([]);
  const [refused, setRefused] = useState<LimitHit[]>([]);
  const [others, setOthers] = useState<LimitHit[]>([]);
  useRepeated(
    async () => {
      const found = await serverHealth();
      setServer(found.part);
      setRefused(refusedRequests(found.metrics));
      setLeading(await leaders());
    },
    ASK_MS,
    "health",
  );
  const limitsProblem = useRepeated(async () => setOthers((await Promise.all([droppedPackets(), fullQuotas()])).flat()), LIMITS_MS, "limits");
  const changes = [nodes, tenants, services, pods].map((feed) => feed.changes.value).join();
  const parts = useMemo(() => {
    const counts = podCounts(pods);
    const found = [
      ...(server ? [server] : []),
      ...leading,
      ...[...nodes.items.values()].map((node) => nodePart(node, counts.get(node.metadata.name) ?? 0)),
      ...[...tenants.items.values()].flatMap((tenant) => planePart(tenant, isAsleep(tenant)) ?? []),
      ...[...services.items.values()].flatMap((service) => apiServicePart(service) ?? []),
    ];
    return found.sort((a, b) => Math.min(1, ORDER.indexOf(a.state)) - Math.min(1, ORDER.indexOf(b.state)));
  }, [changes, server, leading]);
  void events.changes.value;
  const bad = parts.filter((part) => part.state === "failing" || part.state === "degraded").length;
  return (
    <section class="view">
      <header class="view-head">
        <h1>{t().systemHealth}</h1>
        {parts.length > 0 && <Badge text={bad ? t().unhealthy(bad) : t().allHealthy} kind={bad ? "bad" : "good"} />}
        <LiveDot feed={nodes} />
      </header>
      <div class="scroll">
        <Parts parts={parts} />
        <section class="card">
          <h2>{t().limits}</h2>
          {limitsProblem && <Problem text={limitsProblem} />}
          <Limits hits={[...refused, ...others]} />
        </section>
        <section class="card">
          <h2>{t().recentEvents}</h2>
          <EventList events={newest(events).slice(0, EVENTS_SHOWN)} isLoading={events.state.value === "loading"} withObject withTenant />
        </section>
      </div>
    </section>
  );
}

function podCounts(pods: TableFeed): Map<string, number> {
  const at = pods.columns.findIndex((column) => column.name === "Node");
  const counts = new Map<string, number>();
  for (const row of pods.rows.values()) counts.set(String(row.cells[at]), (counts.get(String(row.cells[at])) ?? 0) + 1);
  return counts;
}

function Parts({ parts }: { parts: Part[] }) {
  return (
    <section class="card">
      <h2>{t().parts}</h2>
      <div class="over">
        <table class="small">
          <thead>
            <tr>
              <th>{t().name}</th>
              <th>{t().part}</th>
              <th>{t().state}</th>
              <th>{t().details}</th>
            </tr>
          </thead>
          <tbody>
            {parts.map((part) => (
              <tr key={`${part.kind} ${part.name}`}>
                <td>{part.link ? <a href={objectLink(part.link.tenant, part.link.kind, part.link.namespace, part.link.name)}>{visible(part.name)}</a> : visible(part.name)}</td>
                <td>{t().partKinds[part.kind]}</td>
                <td>
                  <Badge text={t().partStates[part.state]} kind={TONES[part.state]} />
                </td>
                <td class="long">{visible(part.detail)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Limits({ hits }: { hits: LimitHit[] }) {
  if (!hits.length) return <p class="empty">{t().noLimits}</p>;
  return (
    <div class="over">
      <table class="small">
        <thead>
          <tr>
            <th>{t().tenant}</th>
            <th>{t().limit}</th>
            <th>{t().count}</th>
            <th>{t().details}</th>
          </tr>
        </thead>
        <tbody>
          {[...hits]
            .sort((a, b) => b.count - a.count)
            .map((hit) => (
              <tr key={`${hit.limit} ${hit.tenant} ${hit.detail}`}>
                <td>
                  <a href={tenantLink(hit.tenant)}>{visible(hit.tenant)}</a>
                </td>
                <td>{t().limitKinds[hit.limit]}</td>
                <td class="number">{hit.limit === "full" ? percent(hit.count) : hit.count}</td>
                <td class="long">{hit.link ? <a href={objectLink(hit.tenant, hit.link.kind, hit.link.namespace, hit.link.name)}>{visible(hit.detail)}</a> : visible(hit.detail || t().limitDetails[hit.limit])}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  );
}
