// What pods use while somebody looks: CPU, memory and traffic over time.
import { useMemo } from "preact/hooks";
import { flowsOf } from "../api/flows";
import { History } from "../api/history";
import { json } from "../api/http";
import { POD_METRICS, collection, query } from "../api/paths";
import { TrafficMeter } from "../api/traffic";
import type { Kind, KubeList, KubeObject } from "../api/types";
import { usageOf, type PodMetrics } from "../api/usage";
import { Chart } from "../parts/chart";
import { Problem } from "../parts/basics";
import { useRepeated } from "../parts/repeated";
import { bytes, cores } from "../parts/show";
import { t } from "../text";
import { isPod, selectorOf } from "./logs";

const ASK_MS = 10_000;
const RECENT_SECONDS = 60;
const perSecond = (value: number) => `${bytes(value)}/s`;
const packets = (value: number) => value.toFixed(value < 10 ? 1 : 0);

/** Of one pod, or of each pod of a workload. */
export function MetricsTab({ tenant, kind, object }: { tenant: string; kind: Kind; object: KubeObject }) {
  const { namespace = "", name, uid = "" } = object.metadata;
  const only = isPod(kind) ? { fieldSelector: `metadata.name=${name}` } : { labelSelector: selectorOf(kind, object) };
  return <Charts key={uid} tenant={tenant} namespace={namespace} only={only} pod={isPod(kind) ? name : ""} id={uid} isSplit />;
}

/** Of all pods of a tenant together. */
export function TenantCharts({ tenant }: { tenant: string }) {
  return <Charts key={tenant} tenant={tenant} namespace="" only={{}} pod="" id={tenant} />;
}

interface Props {
  tenant: string;
  namespace: string;
  only: Record<string, string>;
  pod: string;
  id: string;
  /** Whether every pod has a line of its own. */
  isSplit?: boolean;
}

function Charts({ tenant, namespace, only, pod, id, isSplit }: Props) {
  const [cpu, memory, traffic, drops, meter] = useMemo(() => [new History(), new History(), new History(), new History(), new TrafficMeter()] as const, [id]);
  const problem = useRepeated(
    async () => {
      const list = await json<KubeList<PodMetrics>>("GET", collection(tenant, POD_METRICS, namespace) + query(only));
      const pods = list.items.map((each) => ({ name: isSplit ? each.metadata.name : tenant, ...usageOf(each) }));
      cpu.add(sums(pods, "cpu"));
      memory.add(sums(pods, "memory"));
      const names = new Set(list.items.map((each) => `${each.metadata.namespace}/${each.metadata.name}`));
      const flows = await flowsOf(tenant, namespace, RECENT_SECONDS, pod);
      const now = meter.take(flows.filter((flow) => [flow.source, flow.destination].some((end) => names.has(`${end.namespace}/${end.name}`))));
      if (!now) return;
      traffic.add(new Map([[t().network, now.bytesPerSecond]]));
      drops.add(new Map([[t().dropped, now.dropsPerSecond]]));
    },
    ASK_MS,
    id,
  );
  return (
    <>
      {problem && <Problem text={problem} />}
      <div class="charts">
        <Chart title={t().cpu} history={cpu} format={cores} />
        <Chart title={t().memory} history={memory} format={bytes} />
        <Chart title={t().traffic} history={traffic} format={perSecond} />
        <Chart title={t().drops} history={drops} format={packets} />
      </div>
      <p class="fine">{t().chartsLead}</p>
    </>
  );
}

function sums(pods: { name: string; cpu: number; memory: number }[], what: "cpu" | "memory"): Map<string, number> {
  const found = new Map<string, number>();
  for (const pod of pods) found.set(pod.name, (found.get(pod.name) ?? 0) + pod[what]);
  return found;
}
