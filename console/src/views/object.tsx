// One object: what it is, its YAML, its events, its logs.
import { useState } from "preact/hooks";
import { ObjectFeed } from "../api/feed";
import { POD_METRICS, collection } from "../api/paths";
import type { Kind, KubeObject } from "../api/types";
import { Badge, Button, LiveDot, Problem, Tabs, useFeed } from "../parts/basics";
import { RemoveDialog } from "../parts/remove";
import { visible } from "../parts/show";
import { NO_NAMESPACE, go, kindLink, route, setQuery } from "../state/route";
import { isKnown, kindOf } from "../state/tenant";
import { t } from "../text";
import { EventsTab } from "./events";
import { useAccess } from "./kind";
import { LogsTab, hasPods, isPod } from "./logs";
import { MetricsTab } from "./metrics";
import { RelatedTab } from "./related";
import { SummaryTab, statusOf } from "./summary";
import { TerminalTab } from "./terminal";
import { YamlTab } from "./yaml";

function isRunning(pod: KubeObject): boolean {
  return pod.status?.["phase"] === "Running";
}

interface Props {
  tenant: string;
  kind: string;
  namespace: string;
  name: string;
}

export function ObjectView(props: Props) {
  const kind = kindOf(props.kind);
  if (!kind) return <p class="empty">{isKnown.value ? t().unknownKind(visible(props.kind)) : ""}</p>;
  const namespace = props.namespace === NO_NAMESPACE ? "" : props.namespace;
  return <Shown {...props} namespace={namespace} of={kind} />;
}

function Shown({ tenant, kind: key, namespace, name, of: kind }: Props & { of: Kind }) {
  const path = collection(tenant, kind, namespace);
  const feed = useFeed(() => new ObjectFeed(path, { fieldSelector: `metadata.name=${name}` }), `${path}/${name}`);
  const rights = useAccess(tenant, namespace);
  const [isRemoving, setRemoving] = useState(false);
  void feed.changes.value;
  const object: KubeObject | undefined = feed.items.values().next().value;
  const tab = route.value.query["tab"] ?? "summary";
  const isMeasured = object && hasPods(kind, object) && rights.may("list", POD_METRICS);
  const tabs = [
    { id: "summary", title: t().summary },
    { id: "yaml", title: t().yaml },
    { id: "events", title: t().events },
    { id: "related", title: t().related },
    ...(isMeasured ? [{ id: "metrics", title: t().metrics }] : []),
    ...(object && hasPods(kind, object) && rights.may("get", { group: "", resource: "pods" }, "", "log") ? [{ id: "logs", title: t().logs }] : []),
    ...(object && isPod(kind) && isRunning(object) && rights.may("create", kind, "", "exec") ? [{ id: "terminal", title: t().terminal }] : []),
  ];
  const status = object ? statusOf(object) : "";
  return (
    <section class="view">
      <header class="view-head">
        <h1>
          <a class="crumb" href={kindLink(tenant, key)}>
            {visible(kind.kind)}
          </a>
          <span class="slash">/</span>
          {namespace && (
            <>
              <a class="crumb" href={kindLink(tenant, key, { ns: namespace })}>
                {visible(namespace)}
              </a>
              <span class="slash">/</span>
            </>
          )}
          <span class="name">{visible(name)}</span>
        </h1>
        {status && <Badge text={status} />}
        <LiveDot feed={feed} />
        <span class="space" />
        <Button
          kind="quiet"
          denied={!object || rights.may("delete", kind, name) ? undefined : t().mayNot("delete", kind.resource)}
          disabled={!object}
          onClick={() => setRemoving(true)}
        >
          {t().remove}
        </Button>
      </header>
      <Tabs tabs={tabs} current={tab} onChoose={(id) => setQuery({ tab: id === "summary" ? "" : id })} />
      {feed.error.value && feed.state.value === "failed" ? (
        <Problem text={feed.error.value.message} />
      ) : !object ? (
        <p class="empty">{feed.state.value === "loading" ? "" : t().gone}</p>
      ) : tab === "yaml" ? (
        <YamlTab tenant={tenant} kind={kind} object={object} rights={rights} />
      ) : tab === "events" ? (
        <EventsTab tenant={tenant} object={object} />
      ) : tab === "related" ? (
        <RelatedTab tenant={tenant} kind={kind} object={object} rights={rights} />
      ) : tab === "metrics" && isMeasured ? (
        <div class="scroll">
          <MetricsTab tenant={tenant} kind={kind} object={object} />
        </div>
      ) : tab === "logs" && tabs.some((each) => each.id === "logs") ? (
        <LogsTab tenant={tenant} kind={kind} object={object} />
      ) : tab === "terminal" && tabs.some((each) => each.id === "terminal") ? (
        <TerminalTab tenant={tenant} object={object} />
      ) : (
        <SummaryTab tenant={tenant} kind={kind} object={object} rights={rights} />
      )}
      {isRemoving && object && (
        <RemoveDialog tenant={tenant} kind={kind} meta={object.metadata} onClose={() => setRemoving(false)} onDone={() => go(["t", tenant, "k", key])} />
      )}
    </section>
  );
}
