// What an object is, at a glance. Kinds that nobody has heard of are shown by their fields.
import { useState } from "preact/hooks";
import type { Access } from "../api/access";
import type { Condition, Kind, KubeObject } from "../api/types";
import { Badge, Button } from "../parts/basics";
import { age, fullTime, visible } from "../parts/show";
import { kindKey } from "../api/paths";
import { objectLink } from "../state/route";
import { isRing0 } from "../state/session";
import { kindNamed } from "../state/tenant";
import { t } from "../text";
import { Containers, podStatus } from "./containers";
import { PortForward } from "./forward";
import { NodePods } from "./node-pods";

const FACT_CHARS_MAX = 160;

export function statusOf(object: KubeObject): string {
  if (object.metadata.deletionTimestamp) return "Terminating";
  if (object.kind === "Pod" || Array.isArray((object.status as { containerStatuses?: unknown })?.containerStatuses)) return podStatus(object);
  const status = object.status ?? {};
  if (typeof status["phase"] === "string") return status["phase"];
  const ready = conditions(object).find((each) => ["Ready", "Available", "Complete", "Established"].includes(each.type));
  if (!ready) return "";
  return ready.status === "True" ? ready.type : (ready.reason ?? `Not${ready.type}`);
}

export function conditions(object: KubeObject): Condition[] {
  const found = object.status?.["conditions"];
  return Array.isArray(found) ? (found as Condition[]) : [];
}

export function SummaryTab({ tenant, kind, object, rights }: { tenant: string; kind: Kind; object: KubeObject; rights: Access }) {
  const { metadata } = object;
  const all = conditions(object);
  const status = scalarsOf(object.status);
  return (
    <div class="scroll">
      <div class="cards">
        <section class="card">
          <dl class="facts">
            <Fact name={t().created}>
              {age(metadata.creationTimestamp)} <span class="fine">{fullTime(metadata.creationTimestamp)}</span>
            </Fact>
            {metadata.deletionTimestamp && <Fact name={t().deleting}>{age(metadata.deletionTimestamp)}</Fact>}
            {(metadata.ownerReferences ?? []).map((owner) => (
              <Fact key={owner.name} name={owner.controller ? t().owner : t().owners}>
                <Owner tenant={tenant} namespace={metadata.namespace} owner={owner} />
              </Fact>
            ))}
            {scalarsOf(object.spec).map(([name, value]) => (
              <Fact key={name} name={name}>
                {value}
              </Fact>
            ))}
          </dl>
        </section>
        {status.length > 0 && (
          <section class="card">
            <h2>{t().status}</h2>
            <dl class="facts">
              {status.map(([name, value]) => (
                <Fact key={name} name={name}>
                  {value}
                </Fact>
              ))}
            </dl>
          </section>
        )}
      </div>
      {kind.resource === "pods" && !kind.group && <Containers object={object} />}
      {kind.resource === "nodes" && !kind.group && isRing0() && <NodePods node={object} />}
      {all.length > 0 && <Conditions all={all} />}
      <PortForward kind={kind} object={object} rights={rights} />
      <Pairs title={t().labels} pairs={metadata.labels} />
      {kind.resource === "secrets" && !kind.group ? <Secret data={object["data"]} /> : <Pairs title={t().data} pairs={object["data"]} />}
      <Pairs title={t().annotations} pairs={metadata.annotations} />
      {metadata.finalizers?.length ? (
        <section class="card">
          <h2>{t().finalizers}</h2>
          <p>{metadata.finalizers.map(visible).join(", ")}</p>
        </section>
      ) : null}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{visible(name)}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Owner(props: { tenant: string; namespace: string | undefined; owner: { apiVersion: string; kind: string; name: string } }) {
  const kind = kindNamed(props.owner.apiVersion, props.owner.kind);
  const text = `${visible(props.owner.kind)}/${visible(props.owner.name)}`;
  if (!kind) return <>{text}</>;
  return <a href={objectLink(props.tenant, kindKey(kind), kind.namespaced ? props.namespace : "", props.owner.name)}>{text}</a>;
}

/** The fields that fit on a line; the others are in the YAML. */
function scalarsOf(fields: Record<string, unknown> | undefined): [string, string][] {
  return Object.entries(fields ?? {})
    .filter(([name]) => name !== "conditions")
    .flatMap(([name, value]): [string, string][] => {
      const text = inWords(value);
      return text && text.length <= FACT_CHARS_MAX ? [[name, visible(text)]] : [];
    });
}

/** `cpu: 2, memory: 8Gi`: without the brackets of JSON, as far as nothing is nested in it. */
function inWords(value: unknown): string {
  if (value === null || typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.map(inWords).join("; ");
  const isFlat = Object.values(value).every((each) => each === null || typeof each !== "object");
  const all = Object.entries(value as Record<string, unknown>);
  return isFlat ? all.map(([name, each]) => `${name}: ${String(each)}`).join(", ") : JSON.stringify(value);
}

function Conditions({ all }: { all: Condition[] }) {
  return (
    <section class="card">
      <h2>{t().conditions}</h2>
      <div class="over">
        <table class="small">
          <thead>
            <tr>
              <th>{t().type}</th>
              <th>{t().status}</th>
              <th>{t().since}</th>
              <th>{t().reason}</th>
              <th>{t().message}</th>
            </tr>
          </thead>
          <tbody>
            {all.map((each) => (
              <tr key={each.type}>
                <td>{visible(each.type)}</td>
                <td>
                  <Badge text={visible(each.status)} kind={each.status === "True" ? "good" : each.status === "False" ? "" : "warn"} />
                </td>
                <td>{age(each.lastTransitionTime)}</td>
                <td>{visible(each.reason)}</td>
                <td class="long">{visible(each.message)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Pairs({ title, pairs }: { title: string; pairs: unknown }) {
  if (!pairs || typeof pairs !== "object") return null;
  const entries = Object.entries(pairs);
  if (!entries.length) return null;
  return (
    <section class="card">
      <h2>{title}</h2>
      <dl class="pairs">
        {entries.map(([name, value]) => (
          <div key={name}>
            <dt>{visible(name)}</dt>
            <dd>{visible(value)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Secret({ data }: { data: unknown }) {
  const [isShown, setShown] = useState(false);
  if (!data || typeof data !== "object" || !Object.keys(data).length) return null;
  return (
    <section class="card">
      <h2>
        {t().data}{" "}
        <Button kind="quiet" pressed={isShown} onClick={() => setShown(!isShown)}>
          {isShown ? t().hide : t().show}
        </Button>
      </h2>
      <dl class="pairs">
        {Object.entries(data as Record<string, string>).map(([name, value]) => (
          <div key={name}>
            <dt>{visible(name)}</dt>
            <dd>{isShown ? visible(decoded(value)) : "••••••••"}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function decoded(value: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(atob(value), (char) => char.charCodeAt(0)));
  } catch {
    return value;
  }
}
