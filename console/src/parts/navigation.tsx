// The kinds at the side, in groups. Those that the user may not list are not there.
import { computed } from "@preact/signals";
import { canList } from "../api/access";
import { ALL, kindKey, plural } from "../api/paths";
import type { Kind } from "../api/types";
import { kindLink, link, route } from "../state/route";
import { isRing0 } from "../state/session";
import { access, kinds, tenant } from "../state/tenant";
import { t } from "../text";
import { menuOpen } from "./topbar";
import { visible } from "./show";

type GroupName = "workloads" | "network" | "configuration" | "storage" | "accessControl" | "cluster";

const GROUPS: Record<GroupName, string[]> = {
  workloads: ["pods", "deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps", "jobs.batch", "cronjobs.batch", "horizontalpodautoscalers.autoscaling"],
  network: ["services", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "networks.arktos.futurewei.com", "endpointslices.discovery.k8s.io", "vpcs.mizar.com", "subnets.mizar.com", "endpoints.mizar.com", "droplets.mizar.com"],
  configuration: ["configmaps", "secrets", "resourcequotas", "limitranges", "poddisruptionbudgets.policy"],
  storage: ["persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"],
  accessControl: ["serviceaccounts", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"],
  cluster: ["nodes", "namespaces", "tenants", "customresourcedefinitions.apiextensions.k8s.io"],
};
const PLACED = new Set([...Object.values(GROUPS).flat(), "events"]);
const STOCK = /(^$|^(apps|batch|autoscaling|policy|extensions)$|\.k8s\.io$|^mizar\.com$|^arktos\.futurewei\.com$|\.alcove\.io$)/;
/** The same objects as in another group. */
const HIDDEN = new Set(["events.events.k8s.io", "networks", "bindings", "componentstatuses"]);

const listed = computed(() => kinds.value.filter((kind) => canList(access.value, kind) && !HIDDEN.has(kindKey(kind))));

export function Navigation() {
  const at = tenant.value;
  const byKey = new Map(listed.value.map((kind) => [kindKey(kind), kind]));
  const rest = listed.value.filter((kind) => !PLACED.has(kindKey(kind)) && kind.verbs.includes("watch"));
  const own = rest.filter((kind) => !STOCK.test(kind.group));
  const more = rest.filter((kind) => STOCK.test(kind.group));
  return (
    <nav class={menuOpen.value ? "side open" : "side"} aria-label={t().menu} onClick={(event) => (event.target as Element).closest("a") && (menuOpen.value = false)}>
      {isRing0() && <Entry href="#/tenants" title={t().tenants} isCurrent={!["t", "health"].includes(route.value.parts[0] ?? "")} />}
      {isRing0() && <Entry href="#/health" title={t().systemHealth} isCurrent={route.value.parts[0] === "health"} />}
      {at !== ALL && <Entry href={link(["t", at])} title={t().overview} isCurrent={route.value.parts[0] === "t" && !route.value.parts[2]} />}
      <Entry href={link(["t", at, "map"])} title={t().map} isCurrent={route.value.parts[2] === "map"} />
      <Entry href={link(["t", at, "flows"])} title={t().flows} isCurrent={route.value.parts[2] === "flows"} />
      {byKey.has("events") && <Entry href={kindLink(at, "events")} title={t().events} isCurrent={route.value.parts[3] === "events"} />}
      {at !== ALL && access.value.mayPatch && <Entry href={link(["t", at, "apply"])} title={t().apply} isCurrent={route.value.parts[2] === "apply"} />}
      {(Object.keys(GROUPS) as GroupName[]).map((group) => (
        <Group key={group} title={t()[group]} kinds={GROUPS[group].flatMap((key) => byKey.get(key) ?? [])} isOpen />
      ))}
      <Group title={t().ownKinds} kinds={own} isOpen showGroup />
      <Group title={t().more} kinds={more} />
    </nav>
  );
}

function Group(props: { title: string; kinds: Kind[]; isOpen?: boolean; showGroup?: boolean }) {
  if (!props.kinds.length) return null;
  const current = route.value.parts[3];
  return (
    <details open={props.isOpen || props.kinds.some((kind) => kindKey(kind) === current)}>
      <summary>{props.title}</summary>
      {props.kinds.map((kind) => (
        <Entry
          key={kindKey(kind)}
          href={kindLink(tenant.value, kindKey(kind))}
          title={plural(kind)}
          {...(props.showGroup ? { hint: kind.group } : {})}
          isCurrent={kindKey(kind) === current}
        />
      ))}
    </details>
  );
}

function Entry(props: { href: string; title: string; isCurrent: boolean; hint?: string }) {
  return (
    <a href={props.href} class={props.isCurrent ? "entry current" : "entry"} aria-current={props.isCurrent ? "page" : undefined} title={props.hint}>
      {visible(props.title)}
    </a>
  );
}
