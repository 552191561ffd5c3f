// A tenant at a glance: what runs, what does not, what it uses, what went wrong lately.
import { useEffect, useMemo } from "preact/hooks";
import { ObjectFeed, TableFeed } from "../api/feed";
import { EVENTS, NAMESPACES, NETWORKS, PODS, SERVICES, collection, plural } from "../api/paths";
import type { Kind } from "../api/types";
import { UsageHistory } from "../api/usage";
import { Badge, LiveDot, Sparkline, useFeed } from "../parts/basics";
import { bytes, cores, tone, visible } from "../parts/show";
import { kindLink } from "../state/route";
import { kindOf } from "../state/tenant";
import { t } from "../text";
import { EventList, eventTime, type EventObject } from "./events";
import { useState } from "preact/hooks";
import { countOf } from "./tenants";

const WARNINGS_SHOWN = 20;

export function Overview({ tenant }: { tenant: string }) {
  const pods = useFeed(() => new TableFeed(collection(tenant, PODS)), `pods of ${tenant}`);
  const events = useFeed(() => new ObjectFeed<EventObject>(collection(tenant, EVENTS), { fieldSelector: "type=Warning" }), `warnings of ${tenant}`);
  const usage = useMemo(() => new UsageHistory(tenant), [tenant]);
  useEffect(() => usage.start(), [usage]);
  void events.changes.value;
  const warnings = [...events.items.values()].sort((a, b) => eventTime(b).localeCompare(eventTime(a))).slice(0, WARNINGS_SHOWN);
  const history = usage.byTenant.value.get(tenant) ?? [];
  const latest = history.at(-1);
  return (
    <section class="view">
      <header class="view-head">
        <h1>{visible(tenant)}</h1>
        <LiveDot feed={pods} />
      </header>
      <div class="scroll">
        <div class="tiles">
          <PodTile tenant={tenant} feed={pods} />
          {["deployments.apps", "statefulsets.apps", "jobs.batch"].map((key) => {
            const kind = kindOf(key);
            return kind && <CountTile key={key} tenant={tenant} kind={kind} link={key} title={plural(kind)} />;
          })}
          <CountTile tenant={tenant} kind={SERVICES} link="services" title={t().services} />
          <CountTile tenant={tenant} kind={NETWORKS} link="networks.arktos.futurewei.com" title={t().networks} />
          <CountTile tenant={tenant} kind={NAMESPACES} link="namespaces" title={t().namespaces} />
          <UsageTile title={t().cpu} text={latest ? cores(latest.cpu) : "–"} values={history.map((each) => each.cpu)} />
          <UsageTile title={t().memory} text={latest ? bytes(latest.memory) : "–"} values={history.map((each) => each.memory)} />
        </div>
        <section class="card">
          <h2>{t().recentEvents}</h2>
          <EventList events={warnings} isLoading={events.state.value === "loading"} withObject />
        </section>
      </div>
    </section>
  );
}

function PodTile({ tenant, feed }: { tenant: string; feed: TableFeed }) {
  void feed.changes.value;
  const at = feed.columns.findIndex((column) => column.name === "Status");
  const counts = new Map<string, number>();
  for (const row of feed.rows.values()) counts.set(String(row.cells[at]), (counts.get(String(row.cells[at])) ?? 0) + 1);
  const order = [...counts].sort((a, b) => b[1] - a[1]);
  const parts = ["good", "warn", "bad", ""].map((kind) => ({ kind, count: order.filter(([status]) => tone(status) === kind).reduce((sum, [, count]) => sum + count, 0) }));
  return (
    <a class="tile big" href={kindLink(tenant, "pods")}>
      <span class="tile-title">{t().pods}</span>
      <span class="tile-number">{feed.rows.size}</span>
      <span class="bar" aria-hidden="true">
        {parts.map(({ kind, count }) => count > 0 && <span key={kind} class={kind || "other"} style={{ flexGrow: count }} />)}
      </span>
      <span class="tile-words">
        {order.slice(0, 4).map(([status, count]) => (
          <span key={status}>
            {count} <Badge text={status} />
          </span>
        ))}
      </span>
    </a>
  );
}

function CountTile({ tenant, kind, link, title }: { tenant: string; kind: Kind; link: string; title: string }) {
  const [count, setCount] = useState<number | null>(null);
  useEffect(() => {
    void countOf(collection(tenant, kind)).then(setCount).catch(() => setCount(null));
  }, [tenant]);
  return (
    <a class="tile" href={kindLink(tenant, link)}>
      <span class="tile-title">{visible(title)}</span>
      <span class="tile-number">{count ?? "–"}</span>
    </a>
  );
}

function UsageTile({ title, text, values }: { title: string; text: string; values: number[] }) {
  return (
    <div class="tile">
      <span class="tile-title">{title}</span>
      <span class="tile-number">{text}</span>
      <Sparkline values={values} label={title} />
    </div>
  );
}
