// For ring0: all tenants, what they use, and what can be done with them.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ObjectFeed, TableFeed } from "../api/feed";
import { ALL, PODS, SYSTEM, TENANTS, collection } from "../api/paths";
import type { KubeObject } from "../api/types";
import { UsageHistory } from "../api/usage";
import { NO_FACTS, tenantFacts, type TenantFacts } from "../api/tenant-facts";
import { Button, LiveDot, Problem, useFeed } from "../parts/basics";
import { useRepeated } from "../parts/repeated";
import { tenantLink } from "../parts/topbar";
import { VirtualTable } from "../parts/virtual-table";
import { route, setQuery } from "../state/route";
import { t } from "../text";
import { useAccess } from "./kind";
import { isAsleep, specOf, tenantColumns, type TenantRow } from "./tenant-columns";
import { TenantActions } from "./tenant-actions";
import { CreateTenant } from "./tenant-dialogs";

const FACTS_MS = 30_000;

export function TenantsView() {
  const feed = useFeed(() => new ObjectFeed(collection(SYSTEM, TENANTS)), "tenants");
  const pods = useFeed(() => new TableFeed(collection(ALL, PODS)), "pods of all");
  const usage = useMemo(() => new UsageHistory(ALL), []);
  useEffect(() => usage.start(), [usage]);
  const [isCreating, setCreating] = useState(false);
  const rights = useAccess(SYSTEM, "");
  const { q = "", sort = "name" } = route.value.query;
  const changes = `${feed.changes.value}/${pods.changes.value}`;
  const history = usage.byTenant.value;
  const rows = useMemo(() => rowsOf(feed, pods, usage).filter((row) => row.tenant.metadata.name.includes(q.toLowerCase())), [changes, q, history]);
  const [facts, setFacts] = useState<TenantFacts>(NO_FACTS);
  useRepeated(async () => setFacts(await tenantFacts()), FACTS_MS, "tenants");
  const columns = useMemo(() => tenantColumns(facts, (tenant) => <TenantActions tenant={tenant} rights={rights} isRow />), [facts, rights]);
  return (
    <section class="view">
      <header class="view-head">
        <h1>{t().tenants}</h1>
        <span class="count">{feed.items.size}</span>
        <LiveDot feed={feed} />
        <span class="space" />
        <input type="search" value={q} placeholder={t().filterHint} aria-label={t().filter} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
        <Button kind="primary" denied={rights.may("create", TENANTS) ? undefined : t().mayNot("create", "tenants")} onClick={() => setCreating(true)}>
          {t().createTenant}
        </Button>
      </header>
      {feed.error.value && feed.state.value === "failed" ? (
        <Problem text={feed.error.value.message} />
      ) : (
        <VirtualTable
          label={t().tenants}
          columns={columns}
          rows={rows}
          keyOf={(row) => row.tenant.metadata.name}
          href={(row) => tenantLink(row.tenant.metadata.name)}
          sort={sort}
          onSort={(next) => setQuery({ sort: next })}
          empty={feed.state.value === "loading" ? "" : t().nothingThere(t().tenants)}
        />
      )}
      {isCreating && <CreateTenant onClose={() => setCreating(false)} />}
    </section>
  );
}

function rowsOf(feed: ObjectFeed, pods: TableFeed, usage: UsageHistory): TenantRow[] {
  const status = pods.columns.findIndex((column) => column.name === "Status");
  const counts = new Map<string, { pods: number; running: number }>();
  for (const row of pods.rows.values()) {
    const name = row.object.metadata.tenant ?? "";
    const count = counts.get(name) ?? { pods: 0, running: 0 };
    count.pods++;
    if (row.cells[status] === "Running") count.running++;
    counts.set(name, count);
  }
  const all = [...feed.items.values()];
  const weightOf = (tenant: KubeObject) => (tenant.metadata.name === SYSTEM || isAsleep(tenant) ? 0 : (specOf(tenant).weight ?? 1));
  const weights = all.reduce((sum, tenant) => sum + weightOf(tenant), 0) || 1;
  return all.map((tenant) => ({
    tenant,
    ...(counts.get(tenant.metadata.name) ?? { pods: 0, running: 0 }),
    usage: usage.byTenant.value.get(tenant.metadata.name) ?? [],
    fairShare: weightOf(tenant) / weights,
  }));
}
