// The columns of ring0's table of tenants.
import type { KubeObject } from "../api/types";
import type { TenantFacts } from "../api/tenant-facts";
import type { Usage } from "../api/usage";
import { Badge, Sparkline } from "../parts/basics";
import { age, bytes, cores, now, percent, quantity, visible } from "../parts/show";
import type { TableColumn } from "../parts/virtual-table";
import { t } from "../text";

export interface TenantRow {
  tenant: KubeObject;
  running: number;
  pods: number;
  /** The newest at the end. */
  usage: readonly Usage[];
  /** The part of the cluster that its weight stands for, of those that are awake. */
  fairShare: number;
}

export interface TenantSpec {
  weight?: number;
  controlPlane?: { mode?: string };
  quota?: { hard?: Record<string, string>; min?: Record<string, string> };
}

export function isAsleep(tenant: KubeObject): boolean {
  return has(tenant, "Asleep");
}

function has(tenant: KubeObject, condition: string): boolean {
  const conditions = (tenant.status?.["conditions"] ?? []) as { type: string; status: string }[];
  return conditions.some((each) => each.type === condition && each.status === "True");
}

export function specOf(tenant: KubeObject): TenantSpec {
  return (tenant.spec ?? {}) as TenantSpec;
}

export function stateOf(tenant: KubeObject): { text: string; kind: "good" | "warn" } {
  if (tenant.metadata.deletionTimestamp) return { text: t().terminating, kind: "warn" };
  if (has(tenant, "Moving")) return { text: t().isMoving, kind: "warn" };
  return isAsleep(tenant) ? { text: t().asleep, kind: "warn" } : { text: t().active, kind: "good" };
}

/** Room for what is drawn beside the text. */
const SPARK = " ".repeat(6);
const ACTIONS_CHARS = 15;

const nameOf = (row: TenantRow) => row.tenant.metadata.name;
const cpuOf = (row: TenantRow) => row.usage.at(-1)?.cpu ?? 0;
const memoryOf = (row: TenantRow) => row.usage.at(-1)?.memory ?? 0;

/** The largest part of the cluster's CPU, memory and pods that it uses. */
function shareOf(row: TenantRow, { capacity }: TenantFacts): number {
  const part = (used: number, of: number) => (of > 0 ? used / of : 0);
  return Math.max(part(cpuOf(row), capacity.cpu), part(memoryOf(row), capacity.memory), part(row.running, capacity.pods));
}

/** `cpu 120m of 2`: what it uses of what is kept for it. */
function guaranteed(row: TenantRow): string {
  const used: Record<string, () => string> = { cpu: () => cores(cpuOf(row)), memory: () => bytes(memoryOf(row)), pods: () => String(row.running) };
  const shown: Record<string, (value: number) => string> = { cpu: cores, memory: bytes, pods: String };
  return Object.entries(specOf(row.tenant).quota?.min ?? {})
    .map(([name, value]) => {
      const short = name.replace(/^requests\./, "");
      const most = shown[short]?.(quantity(value)) ?? visible(value);
      return `${visible(short)} ${used[short] ? `${used[short]()} / ` : ""}${most}`;
    })
    .join(", ");
}

export function tenantColumns(facts: TenantFacts, actions: (tenant: KubeObject) => preact.ComponentChildren): TableColumn<TenantRow>[] {
  const today = (row: TenantRow) => facts.today.get(nameOf(row));
  const drops = (row: TenantRow) => facts.drops.get(nameOf(row)) ?? 0;
  const share = (row: TenantRow) => shareOf(row, facts);
  return [
    { id: "name", title: t().name, text: (row) => visible(nameOf(row)) },
    { id: "state", title: t().state, text: (row) => stateOf(row.tenant).text + "  ", draw: (row) => <Badge {...stateOf(row.tenant)} /> },
    { id: "plane", title: t().plane, text: (row) => (specOf(row.tenant).controlPlane?.mode === "Dedicated" ? t().dedicated : t().shared) },
    { id: "share", title: t().share, hint: t().shareHint, numeric: true, text: (row) => `${percent(share(row))} / ${percent(row.fairShare)}`, value: share },
    { id: "weight", title: t().weight, numeric: true, text: (row) => visible(specOf(row.tenant).weight ?? 1), value: (row) => specOf(row.tenant).weight ?? 1 },
    { id: "pods", title: t().pods, numeric: true, text: (row) => (row.pods ? `${row.running}/${row.pods}` : "0"), value: (row) => row.pods },
    {
      id: "cpu", title: t().cpu, numeric: true, text: (row) => `${cores(cpuOf(row))}${SPARK}`, value: cpuOf,
      draw: (row) => <Used text={cores(cpuOf(row))} values={row.usage.map((each) => each.cpu)} label={t().cpu} />,
    },
    {
      id: "memory", title: t().memory, numeric: true, text: (row) => `${bytes(memoryOf(row))}${SPARK}`, value: memoryOf,
      draw: (row) => <Used text={bytes(memoryOf(row))} values={row.usage.map((each) => each.memory)} label={t().memory} />,
    },
    { id: "api", title: t().apiTime, hint: t().apiTimeHint, numeric: true, text: (row) => `${(today(row)?.apiSeconds ?? 0).toFixed(1)} s`, value: (row) => today(row)?.apiSeconds ?? 0 },
    { id: "network", title: t().network, hint: t().networkHint, numeric: true, text: (row) => bytes(today(row)?.networkBytes ?? 0), value: (row) => today(row)?.networkBytes ?? 0 },
    { id: "drops", title: t().drop, hint: t().droppedHint, numeric: true, text: (row) => String(drops(row)), value: drops },
    { id: "guaranteed", title: t().guaranteed, hint: t().guaranteedHint, text: guaranteed },
    { id: "quota", title: t().quota, text: (row) => visible(Object.entries(specOf(row.tenant).quota?.hard ?? {}).map(([key, value]) => `${key} ${value}`).join(", ")) },
    { id: "age", title: t().age, text: (row) => age(row.tenant.metadata.creationTimestamp, now.value), value: (row) => -Date.parse(row.tenant.metadata.creationTimestamp ?? "") },
    { id: "actions", title: "", pinned: true, text: () => " ".repeat(ACTIONS_CHARS), draw: (row) => actions(row.tenant) },
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
