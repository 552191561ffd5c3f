// The connections of a tenant's networks, newest first.
import { useMemo, useState } from "preact/hooks";
import { ObjectFeed, keyOf } from "../api/feed";
import { decidedBy, endText, type Flow } from "../api/flows";
import { ALL, FLOWS, collection } from "../api/paths";
import { TrafficMeter, type Rate } from "../api/traffic";
import { Badge, LiveDot, Problem, useFeed } from "../parts/basics";
import { useRepeated, useSlowed } from "../parts/repeated";
import { age, bytes, now, visible } from "../parts/show";
import { VirtualTable, type TableColumn } from "../parts/virtual-table";
import { route, setQuery } from "../state/route";
import { namespace } from "../state/tenant";
import { t } from "../text";
import { hasWords } from "./kind";

const COUNTERS_MS = 5_000;
const DRAW_MS = 1_000;
const FLOWS_MAX = "5000";
const SINCE_SECONDS = 600;

export interface FollowedFlows {
  feed: ObjectFeed<Flow>;
  flows: Flow[];
  rates: ReadonlyMap<string, Rate>;
}

/** New flows by a watch. That a connection has carried more bytes is no event: the counters are asked for. */
export function useFlows(tenant: string, space: string, sinceSeconds = SINCE_SECONDS): FollowedFlows {
  const key = `flows ${tenant} ${space} ${sinceSeconds}`;
  const feed = useFeed(() => new ObjectFeed<Flow>(collection(tenant, FLOWS, space), { sinceSeconds: String(sinceSeconds), limit: FLOWS_MAX }), key);
  const meter = useMemo(() => new TrafficMeter(), [key]);
  const [rates, setRates] = useState<ReadonlyMap<string, Rate>>(meter.rates);
  const ask = async () => {
    await feed.refresh();
    if (feed.state.peek() !== "live") return;
    meter.take([...feed.items.values()]);
    setRates(meter.rates);
  };
  useRepeated(ask, COUNTERS_MS, key);
  const changes = useSlowed(feed.changes, DRAW_MS);
  return { feed, rates, flows: useMemo(() => [...feed.items.values()], [feed, changes]) };
}

export function FlowsView({ tenant }: { tenant: string }) {
  const { feed, flows } = useFlows(tenant, namespace.value);
  const { q = "", sort = "-last" } = route.value.query;
  const columns = useMemo(() => columnsOf(tenant === ALL), [tenant]);
  const rows = useMemo(() => (q ? flows.filter((flow) => hasWords(columns.map((column) => column.text(flow)).join("\n"), q)) : flows), [flows, q, columns]);
  return (
    <section class="view">
      <header class="view-head">
        <h1>{t().flows}</h1>
        <span class="count">{q ? t().filtered(rows.length, flows.length) : flows.length}</span>
        <LiveDot feed={feed} />
        <span class="space" />
        <input type="search" value={q} placeholder={t().filterHint} aria-label={t().filter} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
      </header>
      {feed.error.value && <Problem text={feed.error.value.message} />}
      <VirtualTable
        label={t().flows}
        columns={columns}
        rows={rows}
        keyOf={(flow) => keyOf(flow.metadata)}
        sort={sort}
        onSort={(next) => setQuery({ sort: next })}
        empty={feed.state.value === "loading" ? "" : flows.length ? t().nothingMatches : t().noFlows}
      />
    </section>
  );
}

function columnsOf(withTenant: boolean): TableColumn<Flow>[] {
  const size = (flow: Flow) => (flow.bytesSent ?? 0) + (flow.bytesReceived ?? 0);
  return [
    { id: "last", title: t().lastSeen, text: (flow) => age(flow.end, now.value), value: (flow) => Date.parse(flow.end ?? "") },
    { id: "verdict", title: t().verdict, text: (flow) => visible(flow.verdict) + "  ", draw: (flow) => <Badge text={visible(flow.verdict)} /> },
    ...(withTenant ? [{ id: "tenant", title: t().tenant, text: (flow: Flow) => visible(flow.metadata.tenant) }] : []),
    { id: "source", title: t().source, text: (flow) => visible(endText(flow.source)) },
    { id: "destination", title: t().destination, text: (flow) => visible(flow.service ? `${endText(flow.service)} → ${endText(flow.destination)}` : endText(flow.destination)) },
    { id: "protocol", title: t().protocol, text: (flow) => visible(flow.protocol) },
    { id: "bytes", title: t().bytes, numeric: true, text: (flow) => bytes(size(flow)), value: size },
    { id: "network", title: t().network, text: (flow) => visible(flow.network) },
    { id: "policy", title: t().policy, text: (flow) => visible(decidedBy(flow)), wide: true },
  ];
}
