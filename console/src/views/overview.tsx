// A tenant at a glance: what runs, what does not, what it may use and uses, what went wrong lately.
import { useEffect, useState } from "preact/hooks";
import { ObjectFeed, TableFeed } from "../api/feed";
import { quotaRows, tenantQuotaRows, type QuotaRow } from "../api/limits";
import { EVENTS, NAMESPACES, NETWORKS, PODS, RESOURCE_QUOTAS, SERVICES, SYSTEM, TENANTS, collection, plural } from "../api/paths";
import { countOf } from "../api/tenants";
import type { Kind, KubeObject } from "../api/types";
import { Badge, LiveDot, Problem, useFeed } from "../parts/basics";
import { percent, tone, visible } from "../parts/show";
import { kindLink, objectLink } from "../state/route";
import { isRing0 } from "../state/session";
import { kindOf } from "../state/tenant";
import { t } from "../text";
import { EventList, newest, type EventObject } from "./events";
import { useAccess } from "./kind";
import { TenantCharts } from "./metrics";
import { TenantActions } from "./tenant-actions";
import { isAsleep, specOf, stateOf } from "./tenant-columns";

const WARNINGS_SHOWN = 20;
const ASK_MS = 10_000;
const WORKLOADS = ["deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"];
const RING0_ASK_MS = 5_000;

export function Overview({ tenant }: { tenant: string }) {
  const pods = useFeed(() => new TableFeed(collection(tenant, PODS)), `pods of ${tenant}`);
  const events = useFeed(() => new ObjectFeed<EventObject>(collection(tenant, EVENTS), { fieldSelector: "type=Warning" }), `warnings of ${tenant}`);
  void events.changes.value;
  return (
    <section class="view">
      {isRing0() ? (
        <OwnersHead tenant={tenant} pods={pods} />
      ) : (
        <header class="view-head">
          <h1>{visible(tenant)}</h1>
          <LiveDot feed={pods} />
        </header>
      )}
      <div class="scroll">
        <div class="tiles">
          <PodTile tenant={tenant} feed={pods} />
          {WORKLOADS.map((key) => {
            const kind = kindOf(key);
            return kind && <WorkloadTile key={key} tenant={tenant} kind={kind} link={key} />;
          })}
          <CountTile tenant={tenant} kind={SERVICES} link="services" title={t().services} />
          <CountTile tenant={tenant} kind={NETWORKS} link="networks.arktos.futurewei.com" title={t().networks} />
          <CountTile tenant={tenant} kind={NAMESPACES} link="namespaces" title={t().namespaces} />
        </div>
        <Quotas tenant={tenant} />
        <section class="card">
          <h2>{t().usage}</h2>
          <TenantCharts tenant={tenant} />
        </section>
        <section class="card">
          <h2>
            {t().recentEvents} <a class="aside" href={kindLink(tenant, "events")}>{t().allEvents}</a>
          </h2>
          <EventList events={newest(events).slice(0, WARNINGS_SHOWN)} isLoading={events.state.value === "loading"} withObject />
        </section>
      </div>
    </section>
  );
}

/** Ring0 sees the Tenant itself, and what can be done with it. */
function OwnersHead({ tenant, pods }: { tenant: string; pods: TableFeed }) {
  const feed = useFeed(() => new ObjectFeed(collection(SYSTEM, TENANTS), { fieldSelector: `metadata.name=${tenant}` }).asking(RING0_ASK_MS), `tenant ${tenant}`);
  const rights = useAccess(SYSTEM, "");
  void feed.changes.value;
  const object: KubeObject | undefined = feed.items.values().next().value;
  return (
    <>
      <header class="view-head">
        <h1>{visible(tenant)}</h1>
        {object && <Badge {...stateOf(object)} />}
        {object && (
          <span class="fine">
            {specOf(object).controlPlane?.mode === "Dedicated" ? t().dedicated : t().shared} · {t().weight} {visible(specOf(object).weight ?? 1)}
          </span>
        )}
        {!(object && isAsleep(object)) && <LiveDot feed={pods} />}
        <span class="space" />
        {object && <TenantActions tenant={object} rights={rights} />}
      </header>
      {feed.state.value === "live" && !object && <Problem text={t().noSuchTenant} />}
      {object && tenantQuotaRows(object).length > 0 && (
        <section class="card">
          <h2>
            {t().tenantQuota} <a class="aside" href={objectLink(SYSTEM, "tenants", "", tenant, "yaml")}>YAML</a>
          </h2>
          <QuotaBars rows={tenantQuotaRows(object)} />
        </section>
      )}
    </>
  );
}

function Quotas({ tenant }: { tenant: string }) {
  const feed = useFeed(() => new ObjectFeed(collection(tenant, RESOURCE_QUOTAS)).asking(ASK_MS), `quotas of ${tenant}`);
  void feed.changes.value;
  if (!feed.items.size) return null;
  return (
    <section class="card">
      <h2>{t().quota}</h2>
      {[...feed.items.values()].map((quota) => (
        <div key={quota.metadata.uid}>
          <h3>
            <a href={objectLink(tenant, "resourcequotas", quota.metadata.namespace, quota.metadata.name)}>{visible(`${quota.metadata.namespace}/${quota.metadata.name}`)}</a>
          </h3>
          <QuotaBars rows={quotaRows(quota)} />
        </div>
      ))}
    </section>
  );
}

function QuotaBars({ rows }: { rows: QuotaRow[] }) {
  return (
    <>
      {rows.map(({ resource, used, hard, part }) => (
        <div class="quota" key={resource}>
          <span>{visible(resource)}</span>
          <span class="bar" role="img" aria-label={`${visible(resource)} ${percent(part)}`}>
            <span class={part >= 1 ? "bad" : part >= 0.9 ? "warn" : "good"} style={{ flexGrow: part }} />
            <span style={{ flexGrow: 1 - part }} />
          </span>
          <span class="number">
            {visible(used)} / {visible(hard)}
          </span>
        </div>
      ))}
    </>
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

/** How many there are of a kind, and how many of them are not as they should be, by the server's own columns. */
function WorkloadTile({ tenant, kind, link }: { tenant: string; kind: Kind; link: string }) {
  const feed = useFeed(() => new TableFeed(collection(tenant, kind)).asking(ASK_MS), `${link} of ${tenant}`);
  void feed.changes.value;
  const column = (name: string) => feed.columns.findIndex((each) => each.name === name);
  const [ready, desired, status] = [column("Ready"), column("Desired"), column("Status")];
  const bad = [...feed.rows.values()].filter(({ cells }) => {
    if (status >= 0) return tone(String(cells[status])) === "bad";
    const [have, want] = desired >= 0 ? [cells[ready], cells[desired]] : String(cells[ready] ?? "").split("/");
    return Number(have) < Number(want);
  }).length;
  return (
    <a class="tile" href={kindLink(tenant, link)}>
      <span class="tile-title">{visible(plural(kind))}</span>
      <span class="tile-number">{feed.rows.size}</span>
      {feed.rows.size > 0 && <Badge text={bad ? t().unhealthy(bad) : t().healthy} kind={bad ? "bad" : "good"} />}
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
