// The connections of a tenant's networks, newest first.
import { useEffect, useMemo, useState } from "preact/hooks";
import { decidedBy, endText, flowsOf, type Flow } from "../api/flows";
import { message } from "../api/http";
import { ALL } from "../api/paths";
import { Badge, Problem } from "../parts/basics";
import { age, bytes, now, visible } from "../parts/show";
import { VirtualTable, type TableColumn } from "../parts/virtual-table";
import { route, setQuery } from "../state/route";
import { namespace } from "../state/tenant";
import { t } from "../text";

const ASK_MS = 5_000;
const SINCE_SECONDS = 600;

/** Flows, asked for again while somebody looks. */
export function useFlows(tenant: string, space: string, sinceSeconds = SINCE_SECONDS): { flows: Flow[]; problem: string; isKnown: boolean } {
  const [state, setState] = useState<{ flows: Flow[]; problem: string; isKnown: boolean }>({ flows: [], problem: "", isKnown: false });
  useEffect(() => {
    let isShown = true;
    let isAsking = false;
    const ask = async () => {
      if (document.hidden || isAsking) return;
      isAsking = true;
      try {
        const flows = await flowsOf(tenant, space, sinceSeconds);
        if (isShown) setState({ flows, problem: "", isKnown: true });
      } catch (error) {
        if (isShown) setState((old) => ({ ...old, problem: message(error), isKnown: true }));
      } finally {
        isAsking = false;
      }
    };
    void ask();
    const timer = setInterval(() => void ask(), ASK_MS);
    return () => {
      isShown = false;
      clearInterval(timer);
    };
  }, [tenant, space]);
  return state;
}

export function FlowsView({ tenant }: { tenant: string }) {
  const { flows, problem, isKnown } = useFlows(tenant, namespace.value);
  const { q = "", sort = "-last" } = route.value.query;
  const columns = useMemo(() => columnsOf(tenant === ALL), [tenant]);
  const rows = useMemo(() => {
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    return flows.filter((flow) => {
      const text = columns.map((column) => column.text(flow)).join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }, [flows, q, columns]);
  return (
    <section class="view">
      <header class="view-head">
        <h1>{t().flows}</h1>
        <span class="count">{q ? t().filtered(rows.length, flows.length) : flows.length}</span>
        <span class="space" />
        <input type="search" value={q} placeholder={t().filterHint} aria-label={t().filter} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
      </header>
      {problem && <Problem text={problem} />}
      <VirtualTable
        label={t().flows}
        columns={columns}
        rows={rows}
        keyOf={(flow) => flow.metadata.uid ?? `${flow.metadata.name}/${flow.node}/${flow.direction ?? ""}`}
        sort={sort}
        onSort={(next) => setQuery({ sort: next })}
        empty={isKnown ? t().noFlows : ""}
      />
    </section>
  );
}

function columnsOf(withTenant: boolean): TableColumn<Flow>[] {
  const size = (flow: Flow) => (flow.bytesSent ?? 0) + (flow.bytesReceived ?? 0);
  return [
    { id: "source", title: t().source, text: (flow) => visible(endText(flow.source)) },
    { id: "destination", title: t().destination, text: (flow) => visible(flow.service ? `${endText(flow.service)} → ${endText(flow.destination)}` : endText(flow.destination)) },
    ...(withTenant ? [{ id: "tenant", title: t().tenant, text: (flow: Flow) => visible(flow.metadata.tenant) }] : []),
    { id: "network", title: t().network, text: (flow) => visible(flow.network) },
    { id: "protocol", title: t().protocol, text: (flow) => visible(flow.protocol) },
    { id: "verdict", title: t().verdict, text: (flow) => visible(flow.verdict) + "  ", draw: (flow) => <Badge text={visible(flow.verdict)} /> },
    { id: "bytes", title: t().bytes, numeric: true, text: (flow) => bytes(size(flow)), value: size },
    { id: "last", title: t().since, text: (flow) => age(flow.end, now.value), value: (flow) => Date.parse(flow.end ?? "") },
    { id: "policy", title: t().policy, text: (flow) => visible(decidedBy(flow)), wide: true },
  ];
}
