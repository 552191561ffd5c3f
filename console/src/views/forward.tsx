// How to reach a port of a pod or service from one's own machine. The console itself forwards nothing: kubectl does.
import type { Access } from "../api/access";
import { PODS } from "../api/paths";
import type { Kind, KubeObject } from "../api/types";
import { Button, copyText } from "../parts/basics";
import { visible } from "../parts/show";
import { t } from "../text";
import { containersOf } from "./containers";

const PRIVILEGED = 1024;

function portsOf(kind: Kind, object: KubeObject): number[] {
  const listed = object.spec?.["ports"];
  const ports = kind.resource === "services" ? (Array.isArray(listed) ? listed : []).map((each: { port?: unknown }) => each.port) : containersOf(object).flatMap((each) => each.ports ?? []).map((port) => port.containerPort);
  return [...new Set(ports)].filter((port): port is number => Number.isInteger(port)).slice(0, 20);
}

/** Such as `kubectl -n shop port-forward pod/web-0 8080:80`: users may not listen on the first ports of a machine. */
function commandOf(kind: Kind, object: KubeObject, port: number): string {
  const local = port < PRIVILEGED ? 8000 + port : port;
  const short = kind.resource === "services" ? "service" : "pod";
  return `kubectl -n ${object.metadata.namespace ?? "default"} port-forward ${short}/${object.metadata.name} ${local}:${port}`;
}

export function PortForward({ kind, object, rights }: { kind: Kind; object: KubeObject; rights: Access }) {
  if (kind.group || !["pods", "services"].includes(kind.resource)) return null;
  const ports = portsOf(kind, object);
  if (!ports.length) return null;
  const isAllowed = rights.may("create", PODS, "", "portforward") || rights.may("get", PODS, "", "portforward");
  return (
    <section class="card">
      <h2>{t().forward}</h2>
      {isAllowed ? (
        ports.map((port) => (
          <p class="command-line" key={port}>
            <code>{visible(commandOf(kind, object, port))}</code>{" "}
            <Button kind="quiet" onClick={() => copyText(commandOf(kind, object, port))}>
              {t().copy}
            </Button>
          </p>
        ))
      ) : (
        <p class="fine">{t().mayNot("create", "pods/portforward")}</p>
      )}
    </section>
  );
}
