// All events of a tenant, or for ring0 of all tenants: the newest first, as they come.
import { useMemo } from "preact/hooks";
import { ObjectFeed, keyOf } from "../api/feed";
import { ALL, EVENTS, collection, kindKey } from "../api/paths";
import { Badge, LiveDot, Problem, useFeed } from "../parts/basics";
import { age, now, visible } from "../parts/show";
import { VirtualTable, type TableColumn } from "../parts/virtual-table";
import { objectLink, route, setQuery } from "../state/route";
import { kindNamed } from "../state/tenant";
import { t } from "../text";
import { eventTime, type EventObject } from "./events";
import { hasWords } from "./kind";

export function EventsView({ tenant, space }: { tenant: string; space: string }) {
  const feed = useFeed(() => new ObjectFeed<EventObject>(collection(tenant, EVENTS, space)), `events ${tenant} ${space}`);
  const { q = "", sort = "-last" } = route.value.query;
  const changes = feed.changes.value;
  const columns = useMemo(() => columnsOf(tenant === ALL, !space), [tenant, space, changes === 0]);
  const rows = useMemo(() => {
    const all = [...feed.items.values()];
    return q ? all.filter((event) => hasWords(columns.map((column) => column.text(event)).join("\n"), q)) : all;
  }, [changes, q, columns]);
  const error = feed.error.value;
  return (
    <section class="view">
      <header class="view-head">
        <h1>{t().events}</h1>
        <span class="count" role="status">
          {q ? t().filtered(rows.length, feed.items.size) : feed.items.size}
        </span>
        <LiveDot feed={feed} />
        <span class="space" />
        <input type="search" value={q} placeholder={t().filterHint} aria-label={t().filter} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
      </header>
      {error && feed.state.value === "failed" ? (
        <Problem text={error.message} />
      ) : (
        <VirtualTable
          label={t().events}
          columns={columns}
          rows={rows}
          keyOf={(event) => keyOf(event.metadata)}
          href={(event) => linkOf(event, tenant)}
          sort={sort}
          onSort={(next) => setQuery({ sort: next })}
          empty={feed.state.value === "loading" ? "" : feed.items.size ? t().nothingMatches : t().noEvents}
        />
      )}
    </section>
  );
}

/** To what it is about, where that is known, else to itself. */
function linkOf(event: EventObject, of: string): string {
  const { apiVersion = "v1", kind = "", namespace = "", name = "" } = event.involvedObject ?? {};
  const known = kindNamed(apiVersion, kind);
  const tenant = event.metadata.tenant ?? of;
  if (known && name) return objectLink(tenant, kindKey(known), known.namespaced ? namespace : "", name, "events");
  return objectLink(tenant, "events", event.metadata.namespace, event.metadata.name);
}

function columnsOf(withTenant: boolean, withNamespace: boolean): TableColumn<EventObject>[] {
  const count = (event: EventObject) => event.series?.count ?? event.count ?? 1;
  return [
    { id: "last", title: t().lastSeen, text: (event) => age(eventTime(event), now.value), value: (event) => Date.parse(eventTime(event)) || 0 },
    { id: "type", title: t().type, text: (event) => visible(event.type) + "  ", draw: (event) => <Badge text={visible(event.type)} /> },
    { id: "reason", title: t().reason, text: (event) => visible(event.reason) },
    ...(withTenant ? [{ id: "tenant", title: t().tenant, text: (event: EventObject) => visible(event.metadata.tenant) }] : []),
    ...(withNamespace ? [{ id: "namespace", title: t().namespace, text: (event: EventObject) => visible(event.metadata.namespace) }] : []),
    { id: "object", title: t().object, text: (event) => visible(`${event.involvedObject?.kind ?? ""} ${event.involvedObject?.name ?? ""}`) },
    { id: "count", title: t().count, numeric: true, text: (event) => visible(count(event)), value: count },
    { id: "message", title: t().message, text: (event) => visible(event.message), wide: true },
    { id: "from", title: t().from, text: (event) => visible(event.source?.component || event.reportingComponent) },
  ];
}
