// Beside the map: the flows of an edge, or whether one pod reaches another.
import { useEffect, useState } from "preact/hooks";
import { decidedBy, endText, traced, type Flow, type NodeTrace, type TraceStatus } from "../api/flows";
import { message } from "../api/http";
import { OUTSIDE, type MapEdge, type MapNetwork, type MapObjects, type MapPod } from "../map/model";
import { Badge, Button, Problem } from "../parts/basics";
import { age, bytes, visible } from "../parts/show";
import { objectLink } from "../state/route";
import { tenant as current } from "../state/tenant";
import { t } from "../text";

const FLOWS_SHOWN = 50;
const EDGES_LISTED = 100;

export function EdgePanel({ edge }: { edge: MapEdge }) {
  const policies = [...new Set(edge.flows.flatMap((flow) => (flow.policies ?? []).map((each) => each.policy)))];
  return (
    <>
      <h2>
        {t().flows} <Badge text={edge.verdict === "dropped" ? t().dropped : t().forwarded} kind={edge.verdict === "dropped" ? "bad" : "good"} />
      </h2>
      <p class="fine">
        {edge.flows.length} · {bytes(edge.bytes)}
        {edge.rate > 0 && ` · ${edge.verdict === "dropped" ? t().packetsPerSecond(edge.rate) : `${bytes(edge.rate)}/s`}`}
      </p>
      <h3>{t().policy}</h3>
      {policies.length ? (
        <ul class="plain-list">
          {policies.map((policy) => {
            const [space = "", name = ""] = policy.split("/");
            return (
              <li key={policy}>
                <a href={objectLink(edge.flows[0]?.metadata.tenant ?? current.value, "networkpolicies.networking.k8s.io", space, name)}>{visible(policy)}</a>
              </li>
            );
          })}
        </ul>
      ) : (
        <p class="fine">{t().noPolicy}</p>
      )}
      <EdgeTrace key={edge.id} edge={edge} />
      <ul class="flow-list">
        {edge.flows.slice(0, FLOWS_SHOWN).map((flow, at) => (
          <li key={at}>
            <div>
              {visible(endText(flow.source))} → {visible(flow.service ? `${endText(flow.service)} → ${endText(flow.destination)}` : endText(flow.destination))}
            </div>
            <div class="fine">
              {visible(flow.protocol)} · {bytes((flow.bytesSent ?? 0) + (flow.bytesReceived ?? 0))} · {age(flow.end)} · {visible(flow.node)}
            </div>
            {decidedBy(flow) && <div class={flow.verdict === "dropped" ? "why bad" : "why"}>{visible(decidedBy(flow))}</div>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** What the kernel does now with a packet of the newest of the flows; the policies may have changed since. */
function EdgeTrace({ edge }: { edge: MapEdge }) {
  const [result, setResult] = useState<TraceStatus | null>(null);
  const [problem, setProblem] = useState("");
  const flow = [...edge.flows].sort((a, b) => (b.end ?? "").localeCompare(a.end ?? "")).find((each) => each.source.kind === "Pod" && each.source.name);
  const to = flow?.service ?? flow?.destination;
  if (!flow || !to?.address || !to.port) return null;
  const ask = async () => {
    setProblem("");
    try {
      const { name: pod = "", namespace = "" } = flow.source;
      setResult(await traced(flow.metadata.tenant ?? current.value, namespace, { pod, address: to.address ?? "", port: to.port ?? 0, protocol: flow.protocol }));
    } catch (error) {
      setProblem(message(error));
    }
  };
  return (
    <>
      <h3>{t().trace}</h3>
      <p class="command-line">
        <span>{visible(`${flow.source.name} → ${endText(to)} ${flow.protocol}`)}</span>
        <Button onClick={() => void ask()}>{t().trace}</Button>
      </p>
      {problem && <Problem text={problem} />}
      {result && <Steps result={result} />}
      <h3>{t().flows}</h3>
    </>
  );
}

/** What is shown, in words: also for those who do not see the drawing, or have no pointer. */
export function IdlePanel({ objects, edges, onEdge }: { objects: MapObjects; edges: MapEdge[]; onEdge: (id: string) => void }) {
  const shared = sharedRanges(objects.networks);
  const listed = [...edges].sort((a, b) => a.verdict.localeCompare(b.verdict) || b.rate - a.rate).slice(0, EDGES_LISTED);
  return (
    <>
      <p class="fine">
        {t().mapLead} {t().reachHint}
      </p>
      {shared.length > 0 && <h3>{t().sameRange}</h3>}
      <ul class="flow-list">
        {shared.map(([range, owners]) => (
          <li key={range}>
            <b>{visible(range)}</b>
            <div class="fine">{owners.map(visible).join(", ")}</div>
          </li>
        ))}
      </ul>
      {shared.length > 0 && <p class="fine">{t().sameRangeLead}</p>}
      {listed.length > 0 && <h3>{t().flows}</h3>}
      <ul class="plain-list">
        {listed.map((edge) => (
          <li key={edge.id}>
            <button type="button" class="plain edge" onClick={() => onEdge(edge.id)}>
              <Badge text={edge.verdict === "dropped" ? t().dropped : t().forwarded} kind={edge.verdict === "dropped" ? "bad" : "good"} /> {visible(endName(edge.source))} → {visible(endName(edge.target))}
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

/** `web-5d8f` of the node p:shop/default/web-5d8f. */
function endName(id: string): string {
  if (id === OUTSIDE) return t().outside;
  if (id.startsWith("gw:")) return t().gateway;
  return id.startsWith("out:") ? t().wayOut : (id.split("/").at(-1) ?? "");
}

/** Ranges that networks of several tenants have. */
function sharedRanges(networks: MapNetwork[]): [string, string[]][] {
  const owners = new Map<string, string[]>();
  for (const { cidr, tenant, name } of networks) if (cidr) owners.set(cidr, [...(owners.get(cidr) ?? []), `${tenant}/${name}`]);
  return [...owners].filter(([, names]) => new Set(names.map((each) => each.split("/")[0])).size > 1);
}

export function PodsPanel({ pods, flows }: { pods: MapPod[]; flows: Flow[] }) {
  const [from, to] = pods;
  return (
    <>
      <h2>{to ? t().reach : t().pods}</h2>
      {pods.map((pod) => (
        <p key={pod.key}>
          <a href={objectLink(pod.tenant, "pods", pod.namespace, pod.name)}>{visible(`${pod.namespace}/${pod.name}`)}</a> <Badge text={pod.status} />
          <br />
          <span class="fine">
            {visible(pod.tenant)} · {visible(pod.ip)} · {visible(pod.network)} {pod.subnet && `· ${visible(pod.subnet)}`}
          </span>
        </p>
      ))}
      {!from || !to ? (
        <p class="fine">{t().reachHint}</p>
      ) : from.tenant !== to.tenant ? (
        <p>
          <Badge text={t().no} kind="bad" /> {t().otherTenant}
        </p>
      ) : (
        <Reach key={`${from.key} ${to.key}`} from={from} to={to} flows={flows.filter((flow) => (flow.metadata.tenant ?? from.tenant) === from.tenant)} />
      )}
    </>
  );
}

function Reach({ from, to, flows }: { from: MapPod; to: MapPod; flows: Flow[] }) {
  const into = flows.filter((flow) => flow.destination.name === to.name && flow.destination.namespace === to.namespace);
  const between = into.filter((flow) => flow.source.name === from.name && flow.source.namespace === from.namespace);
  const [port, setPort] = useState(String(into.find((flow) => flow.destination.port)?.destination.port ?? 80));
  const [protocol, setProtocol] = useState("TCP");
  const [result, setResult] = useState<TraceStatus | null>(null);
  const [problem, setProblem] = useState("");
  const ask = async () => {
    setProblem("");
    setResult(null);
    try {
      setResult(await traced(from.tenant, from.namespace, { pod: from.name, address: to.ip, port: Number(port), protocol }));
    } catch (error) {
      setProblem(message(error));
    }
  };
  useEffect(() => void ask(), []);
  return (
    <>
      <div class="tools">
        <select value={protocol} aria-label={t().protocol} onChange={(event) => setProtocol(event.currentTarget.value)}>
          {["TCP", "UDP", "SCTP"].map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <input type="number" min="1" max="65535" value={port} aria-label={t().port} onInput={(event) => setPort(event.currentTarget.value)} />
        <Button onClick={() => void ask()}>{t().trace}</Button>
      </div>
      {problem && <Problem text={problem} />}
      {result && <Steps result={result} />}
      {between.length > 0 && <h3>{t().seen}</h3>}
      <ul class="flow-list">
        {between.slice(0, 5).map((flow, at) => (
          <li key={at}>
            <Badge text={flow.verdict} /> {visible(flow.protocol)} {visible(flow.destination.port)} · {age(flow.end)} · {visible(flow.node)}
            {decidedBy(flow) && <div class={flow.verdict === "dropped" ? "why bad" : "why"}>{visible(decidedBy(flow))}</div>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** What each node's kernel does with the packet, and so whether it arrives. */
function Steps({ result }: { result: TraceStatus }) {
  const { receiver } = result;
  const verdict = result.verdict === "forwarded" && receiver ? (receiver.verdict ?? t().unknown) : (result.verdict ?? "");
  const steps = [...stepsOf(result), ...(receiver ? stepsOf(receiver) : [])];
  return (
    <>
      <p>
        <Badge text={verdict} />
      </p>
      <ol class="steps">
        {steps.map(([title, text], at) => (
          <li key={at}>
            <b>{visible(title)}</b>
            <br />
            {visible(text)}
          </li>
        ))}
      </ol>
    </>
  );
}

function stepsOf(trace: NodeTrace): [string, string][] {
  const onward = trace.nextNode ? ` → ${trace.nextNode}` : "";
  return [
    [t().kernelOf(trace.node ?? ""), trace.verdict ?? trace.message ?? ""],
    ...(trace.policies ?? []).map((each): [string, string] => [`${t().policy} (${each.direction})`, `${each.policy} ${each.allows ? "✓" : "✕"}`]),
    ...(trace.destination ? ([[t().destination, endText(trace.destination) + onward]] as [string, string][]) : []),
    ...(trace.verdict && trace.message ? ([[t().reason, trace.message]] as [string, string][]) : []),
  ];
}
