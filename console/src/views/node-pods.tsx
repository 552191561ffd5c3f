// What runs on a node: pods of all tenants, for ring0.
import { ObjectFeed } from "../api/feed";
import { ALL, PODS, collection } from "../api/paths";
import type { KubeObject } from "../api/types";
import { Badge, useFeed } from "../parts/basics";
import { age, bytes, cores, quantity, visible } from "../parts/show";
import { tenantLink } from "../parts/topbar";
import { objectLink } from "../state/route";
import { t } from "../text";
import { podStatus } from "./containers";

const SHOWN_MAX = 500;

interface Requests {
  cpu: number;
  memory: number;
}

function requestsOf(pod: KubeObject): Requests {
  const containers = ((pod.spec ?? {}) as { containers?: { resources?: { requests?: Record<string, string> } }[] }).containers ?? [];
  const sum = (name: string) => containers.reduce((total, each) => total + quantity(each.resources?.requests?.[name]), 0);
  return { cpu: sum("cpu"), memory: sum("memory") };
}

export function NodePods({ node }: { node: KubeObject }) {
  const name = node.metadata.name;
  const feed = useFeed(() => new ObjectFeed(collection(ALL, PODS), { fieldSelector: `spec.nodeName=${name}` }), `pods on ${name}`);
  void feed.changes.value;
  const pods = [...feed.items.values()].sort((a, b) => `${a.metadata.tenant} ${a.metadata.name}`.localeCompare(`${b.metadata.tenant} ${b.metadata.name}`));
  const asked = pods.map(requestsOf);
  const allocatable = (node.status?.["allocatable"] ?? {}) as Record<string, string>;
  const total = (what: keyof Requests) => asked.reduce((sum, each) => sum + each[what], 0);
  return (
    <section class="card">
      <h2>{t().nodePods}</h2>
      <p class="fine">
        {t().pods} {pods.length} / {visible(allocatable["pods"])} · {t().requested}: {t().cpu} {cores(total("cpu"))} / {cores(quantity(allocatable["cpu"]))} · {t().memory} {bytes(total("memory"))} / {bytes(quantity(allocatable["memory"]))}
      </p>
      {pods.length > 0 && (
        <div class="over">
          <table class="small">
            <thead>
              <tr>
                <th>{t().tenant}</th>
                <th>{t().name}</th>
                <th>{t().status}</th>
                <th>{t().cpu}</th>
                <th>{t().memory}</th>
                <th>IP</th>
                <th>{t().age}</th>
              </tr>
            </thead>
            <tbody>
              {pods.slice(0, SHOWN_MAX).map((pod, at) => {
                const { tenant = "", namespace = "", name: podName, uid, creationTimestamp } = pod.metadata;
                return (
                  <tr key={uid}>
                    <td>
                      <a href={tenantLink(tenant)}>{visible(tenant)}</a>
                    </td>
                    <td>
                      <a href={objectLink(tenant, "pods", namespace, podName)}>{visible(`${namespace}/${podName}`)}</a>
                    </td>
                    <td>
                      <Badge text={podStatus(pod)} />
                    </td>
                    <td class="number">{cores(asked[at]?.cpu ?? 0)}</td>
                    <td class="number">{bytes(asked[at]?.memory ?? 0)}</td>
                    <td>{visible(pod.status?.["podIP"])}</td>
                    <td>{age(creationTimestamp)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {pods.length > SHOWN_MAX && <p class="fine">{t().andMore(pods.length - SHOWN_MAX)}</p>}
    </section>
  );
}
