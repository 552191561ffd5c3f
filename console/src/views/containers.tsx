// A pod's containers, and the word that says how the pod is, as kubectl has it.
import type { KubeObject } from "../api/types";
import { Badge } from "../parts/basics";
import { age, visible } from "../parts/show";
import { t } from "../text";

interface ContainerState {
  waiting?: { reason?: string; message?: string };
  running?: { startedAt?: string };
  terminated?: { reason?: string; exitCode?: number; message?: string; finishedAt?: string };
}

interface ContainerStatus {
  name: string;
  ready?: boolean;
  restartCount?: number;
  state?: ContainerState;
}

export interface Container {
  name: string;
  image?: string;
  ports?: { containerPort: number; protocol?: string }[];
}

export function containersOf(pod: KubeObject): Container[] {
  const spec = (pod.spec ?? {}) as { containers?: Container[]; initContainers?: Container[] };
  return [...(spec.initContainers ?? []), ...(spec.containers ?? [])];
}

function statuses(pod: KubeObject): ContainerStatus[] {
  const status = (pod.status ?? {}) as { containerStatuses?: ContainerStatus[]; initContainerStatuses?: ContainerStatus[] };
  return [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
}

export function podStatus(pod: KubeObject): string {
  const status = (pod.status ?? {}) as { phase?: string; reason?: string };
  if (pod.metadata.deletionTimestamp) return "Terminating";
  if (status.reason) return status.reason;
  const failing = statuses(pod).find((each) => each.state?.waiting?.reason && each.state.waiting.reason !== "PodInitializing");
  return failing?.state?.waiting?.reason ?? status.phase ?? "";
}

function stateText(state: ContainerState | undefined): string {
  if (state?.running) return "Running";
  if (state?.waiting) return state.waiting.reason ?? "Waiting";
  if (state?.terminated) return state.terminated.reason ?? `Exit ${state.terminated.exitCode}`;
  return "";
}

function since(state: ContainerState | undefined): string {
  return age(state?.running?.startedAt ?? state?.terminated?.finishedAt);
}

export function Containers({ object }: { object: KubeObject }) {
  const byName = new Map(statuses(object).map((each) => [each.name, each]));
  return (
    <section class="card">
      <h2>{t().containers}</h2>
      <div class="over">
        <table class="small">
          <thead>
            <tr>
              <th>{t().name}</th>
              <th>{t().state}</th>
              <th>{t().since}</th>
              <th>{t().restarts}</th>
              <th>{t().image}</th>
              <th>{t().ports}</th>
              <th>{t().message}</th>
            </tr>
          </thead>
          <tbody>
            {containersOf(object).map((container) => {
              const status = byName.get(container.name);
              return (
                <tr key={container.name}>
                  <td>{visible(container.name)}</td>
                  <td>
                    <Badge text={stateText(status?.state)} />
                  </td>
                  <td>{since(status?.state)}</td>
                  <td class="number">{status?.restartCount ?? ""}</td>
                  <td class="long">{visible(container.image)}</td>
                  <td>{(container.ports ?? []).map((port) => `${visible(port.containerPort)}/${visible(port.protocol ?? "TCP")}`).join(", ")}</td>
                  <td class="long">{visible(status?.state?.waiting?.message ?? status?.state?.terminated?.message)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}
