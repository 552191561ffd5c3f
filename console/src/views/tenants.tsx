// For ring0: all tenants, what they use, and what can be done with them.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ObjectFeed, TableFeed } from "../api/feed";
import { call, json, message } from "../api/http";
import { kubeconfig, save } from "../api/credentials";
import { ALL, PODS, SYSTEM, TENANTS, collection, one } from "../api/paths";
import type { KubeObject } from "../api/types";
import { UsageHistory } from "../api/usage";
import { Badge, Button, LiveDot, Problem, Sparkline, toast, useFeed } from "../parts/basics";
import { age, bytes, cores, now, visible } from "../parts/show";
import { tenantLink } from "../parts/topbar";
import { VirtualTable, type TableColumn } from "../parts/virtual-table";
import { route, setQuery } from "../state/route";
import { server } from "../state/session";
import { t } from "../text";
import { useAccess } from "./kind";
import { CreateTenant, DeleteTenant } from "./tenant-dialogs";

export interface TenantRow {
  tenant: KubeObject;
  running: number;
  pods: number;
}

interface TenantSpec {
  weight?: number;
  controlPlane?: { mode?: string };
  quota?: { hard?: Record<string, string> };
}

export function isAsleep(tenant: KubeObject): boolean {
  const conditions = (tenant.status?.["conditions"] ?? []) as { type: string; status: string }[];
  return conditions.some((each) => each.type === "Asleep" && each.status === "True");
}

function stateOf(tenant: KubeObject): { text: string; kind: "good" | "warn" } {
  if (tenant.metadata.deletionTimestamp) return { text: t().terminating, kind: "warn" };
  return isAsleep(tenant) ? { text: t().asleep, kind: "warn" } : { text: t().active, kind: "good" };
}

export function TenantsView() {
  const feed = useFeed(() => new ObjectFeed(collection(SYSTEM, TENANTS)), "tenants");
  const pods = useFeed(() => new TableFeed(collection(ALL, PODS)), "pods of all");
  const usage = useMemo(() => new UsageHistory(ALL), []);
  useEffect(() => usage.start(), [usage]);
  const [isCreating, setCreating] = useState(false);
  const [deleting, setDeleting] = useState<KubeObject | null>(null);
  const rights = useAccess(SYSTEM, "");
  const { q = "", sort = "name" } = route.value.query;
  const changes = `${feed.changes.value}/${pods.changes.value}`;
  const rows = useMemo(() => rowsOf(feed, pods).filter((row) => row.tenant.metadata.name.includes(q.toLowerCase())), [changes, q]);
  const history = usage.byTenant.value;
  const columns = useMemo(() => columnsOf(usage, setDeleting, rights.may("update", TENANTS) || rights.may("patch", TENANTS), rights.may("delete", TENANTS)), [history, rights]);
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
      {deleting && <DeleteTenant tenant={deleting} onClose={() => setDeleting(null)} />}
    </section>
  );
}

function rowsOf(feed: ObjectFeed, pods: TableFeed): TenantRow[] {
  const status = pods.columns.findIndex((column) => column.name === "Status");
  const counts = new Map<string, { pods: number; running: number }>();
  for (const row of pods.rows.values()) {
    const name = row.object.metadata.tenant ?? "";
    const count = counts.get(name) ?? { pods: 0, running: 0 };
    count.pods++;
    if (row.cells[status] === "Running") count.running++;
    counts.set(name, count);
  }
  return [...feed.items.values()].map((tenant) => ({ tenant, ...(counts.get(tenant.metadata.name) ?? { pods: 0, running: 0 }) }));
}

function columnsOf(usage: UsageHistory, remove: (tenant: KubeObject) => void, mayChange: boolean, mayDelete: boolean): TableColumn<TenantRow>[] {
  const spec = (row: TenantRow) => (row.tenant.spec ?? {}) as TenantSpec;
  const name = (row: TenantRow) => row.tenant.metadata.name;
  const values = (row: TenantRow) => usage.byTenant.value.get(name(row)) ?? [];
  const cpu = (row: TenantRow) => usage.latest(name(row))?.cpu ?? 0;
  const memory = (row: TenantRow) => usage.latest(name(row))?.memory ?? 0;
  return [
    { id: "name", title: t().name, text: (row) => visible(name(row)) },
    { id: "state", title: t().state, text: (row) => stateOf(row.tenant).text + "  ", draw: (row) => <Badge {...stateOf(row.tenant)} /> },
    { id: "plane", title: t().plane, text: (row) => (spec(row).controlPlane?.mode === "Dedicated" ? t().dedicated : t().shared) },
    { id: "weight", title: t().weight, numeric: true, text: (row) => visible(spec(row).weight ?? 1), value: (row) => spec(row).weight ?? 1 },
    { id: "pods", title: t().pods, numeric: true, text: (row) => (row.pods ? `${row.running}/${row.pods}` : "0"), value: (row) => row.pods },
    {
      id: "cpu", title: t().cpu, numeric: true, text: (row) => `${cores(cpu(row))}           `, value: cpu,
      draw: (row) => <Used text={cores(cpu(row))} values={values(row).map((each) => each.cpu)} label={t().cpu} />,
    },
    {
      id: "memory", title: t().memory, numeric: true, text: (row) => `${bytes(memory(row))}           `, value: memory,
      draw: (row) => <Used text={bytes(memory(row))} values={values(row).map((each) => each.memory)} label={t().memory} />,
    },
    { id: "quota", title: t().quota, text: (row) => visible(Object.entries(spec(row).quota?.hard ?? {}).map(([key, value]) => `${key} ${value}`).join(", ")) },
    { id: "age", title: t().age, text: (row) => age(row.tenant.metadata.creationTimestamp, now.value), value: (row) => -Date.parse(row.tenant.metadata.creationTimestamp ?? "") },
    {
      id: "actions", title: "", text: () => " ".repeat(30),
      draw: (row) => <Actions tenant={row.tenant} mayChange={mayChange} mayDelete={mayDelete} remove={remove} />,
    },
  ];
}

function Used({ text, values, label }: { text: string; values: number[]; label: string }) {
  return (
    <span class="used">
      <Sparkline values={values} label={label} />
      {text}
    </span>
  );
}

function Actions(props: { tenant: KubeObject; mayChange: boolean; mayDelete: boolean; remove: (tenant: KubeObject) => void }) {
  const { tenant, mayChange, mayDelete } = props;
  const name = tenant.metadata.name;
  if (name === SYSTEM) return null;
  const tried = (action: Promise<unknown>, done: string) => void action.then(() => toast(done)).catch((error: unknown) => toast(message(error), "bad"));
  const asleep = isAsleep(tenant);
  const denied = mayChange ? undefined : t().mayNot("update", "tenants");
  return (
    <span class="actions">
      <Button kind="plain" title={t().kubeconfig} denied={denied} onClick={() => tried(makeKubeconfig(name), t().kubeconfigMade(name))}>
        {t().kubeconfig}
      </Button>
      <Button kind="plain" denied={denied} onClick={() => tried(setAsleep(name, !asleep), asleep ? t().waking(name) : t().fallingAsleep(name))}>
        {asleep ? t().wake : t().sleep}
      </Button>
      <Button kind="plain" denied={mayDelete ? undefined : t().mayNot("delete", "tenants")} onClick={() => props.remove(tenant)}>
        {t().remove}
      </Button>
    </span>
  );
}

async function makeKubeconfig(name: string): Promise<void> {
  save(`${name}.kubeconfig`, await kubeconfig(name, server.value.server ?? location.origin));
}

/** As `alcove tenant sleep` and `wake` do it. */
async function setAsleep(name: string, asleep: boolean): Promise<void> {
  const time = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const sleep = asleep ? { asleep: true, wakeTime: null } : { asleep: null, wakeTime: time };
  await call("PATCH", one(SYSTEM, TENANTS, "", name), { body: JSON.stringify({ spec: { sleep } }), type: "application/merge-patch+json" });
}

export async function countOf(path: string): Promise<number> {
  const list = await json<{ items: unknown[]; metadata: { remainingItemCount?: number } }>("GET", `${path}?limit=500`);
  return list.items.length + (list.metadata.remainingItemCount ?? 0);
}
