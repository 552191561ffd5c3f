// Beside the map: the flows of an edge, or whether one pod reaches another.
import { useEffect, useState } from "preact/hooks";
import { decidedBy, endText, traced, type Flow, type TraceStatus } from "../api/flows";
import { message } from "../api/http";
import type { MapEdge, MapPod } from "../map/model";
import { Badge, Button, Problem } from "../parts/basics";
import { age, bytes, visible } from "../parts/show";
import { objectLink } from "../state/route";
import { tenant as current } from "../state/tenant";
import { t } from "../text";

const FLOWS_SHOWN = 50;

export function EdgePanel({ edge }: { edge: MapEdge }) {
  const policies = [...new Set(edge.flows.flatMap((flow) => (flow.policies ?? []).map((each) => each.policy)))];
  return (
    <>
      <h2>
        {t().flows} <Badge text={edge.verdict === "dropped" ? t().dropped : t().forwarded} kind={edge.verdict === "dropped" ? "bad" : "good"} />
      </h2>
      <p class="fine">
        {edge.flows.length} · {bytes(edge.bytes)}
      </p>
      <h3>{t().policy}</h3>
      {policies.length ? (
        <ul class="plain-list">
          {policies.map((policy) => {
            const [space = "", name = ""] = policy.split("/");
            return (
              <li key={policy}>
                <a href={objectLink(current.value, "networkpolicies.networking.k8s.io", space, name)}>{visible(policy)}</a>
              </li>
            );
          })}
        </ul>
      ) : (
        <p class="fine">{t().noPolicy}</p>
      )}
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

export function PodsPanel({ tenant, pods, flows }: { tenant: string; pods: MapPod[]; flows: Flow[] }) {
  const [from, to] = pods;
  if (!from) return <p class="fine">{t().mapLead} {t().reachHint}</p>;
  return (
    <>
      <h2>{to ? t().reach : t().pods}</h2>
      {pods.map((pod) => (
        <p key={pod.key}>
          <a href={objectLink(tenant, "pods", pod.namespace, pod.name)}>{visible(pod.key)}</a> <Badge text={pod.status} />
          <br />
          <span class="fine">
            {visible(pod.ip)} · {visible(pod.network)} {pod.subnet && `· ${visible(pod.subnet)}`}
          </span>
        </p>
      ))}
      {to ? <Reach key={`${from.key} ${to.key}`} tenant={tenant} from={from} to={to} flows={flows} /> : <p class="fine">{t().reachHint}</p>}
    </>
  );
}

function Reach({ tenant, from, to, flows }: { tenant: string; from: MapPod; to: MapPod; flows: Flow[] }) {
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
      setResult(await traced(tenant, from.namespace, { pod: from.name, address: to.ip, port: Number(port), protocol }));
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

function Steps({ result }: { result: TraceStatus }) {
  const steps: [string, string][] = [
    [t().kernelSays, result.node ?? ""],
    ...(result.policies ?? []).map((each): [string, string] => [`${t().policy} (${each.direction})`, `${each.policy} ${each.allows ? "✓" : "✕"}`]),
    ...(result.destination ? ([[t().destination, endText(result.destination) + (result.nextNode ? ` → ${result.nextNode}` : "")]] as [string, string][]) : []),
    ...(result.nextNode && result.verdict === "forwarded" ? ([[result.nextNode, t().policiesThere]] as [string, string][]) : []),
    ...(result.message ? ([[t().reason, result.message]] as [string, string][]) : []),
  ];
  return (
    <>
      <p>
        <Badge text={result.verdict ?? ""} />
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
