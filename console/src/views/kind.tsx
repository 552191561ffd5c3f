// All objects of a kind, in the columns that the server has for it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { NOTHING, accessIn, type Access } from "../api/access";
import { TableFeed, keyOf } from "../api/feed";
import { ALL, EVENTS, collection, kindKey as kindKeyOf, plural } from "../api/paths";
import type { Cell, Kind, Meta, TableRow } from "../api/types";
import { Badge, Button, LiveDot, Problem, useFeed } from "../parts/basics";
import { RemoveDialog } from "../parts/remove";
import { age, now, visible } from "../parts/show";
import { VirtualTable, type TableColumn } from "../parts/virtual-table";
import { go, objectLink, route, setQuery } from "../state/route";
import { access, isKnown, kindOf, namespace } from "../state/tenant";
import { t } from "../text";
import { EventsView } from "./events-view";

export function KindView({ tenant, kind: key }: { tenant: string; kind: string }) {
  const kind = kindOf(key);
  if (!kind) return <p class="empty">{isKnown.value ? t().unknownKind(visible(key)) : ""}</p>;
  if (key === kindKeyOf(EVENTS)) return <EventsView tenant={tenant} space={namespace.value} />;
  return <KindTable tenant={tenant} kind={kind} kindKey={key} />;
}

const WIDE = /^(message|policy|note)$/i;
const STATUS = /^(status|phase|verdict|reason|type|ready)$/i;

function KindTable({ tenant, kind, kindKey }: { tenant: string; kind: Kind; kindKey: string }) {
  const space = kind.namespaced ? namespace.value : "";
  const feed = useFeed(() => new TableFeed(collection(tenant, kind, space)), `${tenant}/${kindKey}/${space}`);
  const { q = "", sort = "", wide = "" } = route.value.query;
  const [removing, setRemoving] = useState<Meta | null>(null);
  const rights = useAccess(tenant, space);
  const changes = feed.changes.value;
  const columns = useMemo(
    () => columnsOf(feed, kind, tenant, space, wide === "1"),
    [feed.columns, kind, tenant, space, wide, changes === 0],
  );
  const rows = useMemo(() => filtered([...feed.rows.values()], q), [changes, q]);
  const error = feed.error.value;
  return (
    <section class="view">
      <header class="view-head">
        <h1>{visible(plural(kind))}</h1>
        <span class="count" role="status">
          {q ? t().filtered(rows.length, feed.rows.size) : feed.rows.size}
        </span>
        <LiveDot feed={feed} />
        <span class="space" />
        <input type="search" value={q} placeholder={t().filterHint} aria-label={t().filter} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
        <Button kind="quiet" pressed={wide === "1"} onClick={() => setQuery({ wide: wide === "1" ? "" : "1" })}>
          {t().wide}
        </Button>
        {tenant !== ALL && kind.verbs.includes("create") && (
          <Button
            denied={rights.may("create", kind) ? undefined : t().mayNot("create", kind.resource)}
            onClick={() => go(["t", tenant, "apply"], { kind: kindKey })}
          >
            {t().create}
          </Button>
        )}
      </header>
      {error && feed.state.value === "failed" ? (
        <Problem text={error.message} />
      ) : (
        <VirtualTable
          label={kind.kind}
          columns={columns}
          rows={rows}
          keyOf={(row) => keyOf(row.object.metadata)}
          href={(row) => {
            const meta = row.object.metadata;
            return objectLink(tenant === ALL ? (meta.tenant ?? tenant) : tenant, kindKey, meta.namespace, meta.name);
          }}
          sort={sort}
          onSort={(next) => setQuery({ sort: next })}
          onKey={(pressed, row) => {
            const meta = row.object.metadata;
            const tabs: Record<string, string> = { y: "yaml", l: "logs" };
            if (tabs[pressed]) location.hash = objectLink(meta.tenant ?? tenant, kindKey, meta.namespace, meta.name, tabs[pressed]);
            else if (pressed === "Delete" && rights.may("delete", kind, meta.name)) setRemoving(meta);
            else return false;
            return true;
          }}
          empty={feed.state.value === "loading" ? "" : feed.rows.size ? t().nothingMatches : t().nothingThere(plural(kind))}
        />
      )}
      {removing && <RemoveDialog tenant={removing.tenant ?? tenant} kind={kind} meta={removing} onClose={() => setRemoving(null)} />}
    </section>
  );
}

/** The rights in a namespace; those of the tenant as a whole until they are known. */
export function useAccess(tenant: string, space: string): Access {
  const [rights, setRights] = useState<Access>(access.value);
  useEffect(() => {
    let isShown = true;
    accessIn(tenant === ALL ? "system" : tenant, space)
      .catch(() => NOTHING)
      .then((found) => isShown && setRights(found));
    return () => {
      isShown = false;
    };
  }, [tenant, space]);
  return rights;
}

function columnsOf(feed: TableFeed, kind: Kind, tenant: string, space: string, isWide: boolean): TableColumn<TableRow>[] {
  const shown = feed.columns.map((column, at) => ({ column, at })).filter(({ column }) => isWide || column.priority === 0);
  const columns = shown.map(({ column, at }, position): TableColumn<TableRow> => {
    const text = (row: TableRow) => cellText(row.cells[at]);
    const made: TableColumn<TableRow> = { id: column.name, title: visible(column.name), text, wide: position > 0 && WIDE.test(column.name) };
    if (column.description) made.hint = visible(column.description);
    if (column.type === "integer" || column.type === "number") {
      made.numeric = true;
      made.value = (row) => Number(row.cells[at] ?? 0);
    }
    if (column.name === "Age") {
      made.text = (row) => age(row.object.metadata.creationTimestamp, now.value) || text(row);
      made.value = (row) => -Date.parse(row.object.metadata.creationTimestamp ?? "");
    } else if (STATUS.test(column.name) && column.type === "string" && !/^\d/.test(text(feed.rows.values().next().value ?? { cells: [], object: { metadata: { name: "" } } }))) {
      made.draw = (row) => <Badge text={text(row)} />;
    }
    return made;
  });
  const more: TableColumn<TableRow>[] = [];
  if (tenant === ALL) more.push({ id: "tenant", title: t().tenant, text: (row) => visible(row.object.metadata.tenant) });
  if (kind.namespaced && !space) more.push({ id: "namespace", title: t().namespace, text: (row) => visible(row.object.metadata.namespace) });
  columns.splice(1, 0, ...more);
  return columns;
}

function cellText(cell: Cell): string {
  return visible(cell);
}

/** Rows that have every word in a cell, a label, or the namespace. */
function filtered(rows: TableRow[], text: string): TableRow[] {
  if (!text.trim()) return rows;
  return rows.filter((row) => {
    const meta = row.object.metadata;
    const labels = Object.entries(meta.labels ?? {}).map(([name, value]) => `${name}=${value}`);
    return hasWords([...row.cells, meta.namespace, meta.tenant, ...labels].join("\n"), text);
  });
}

/** Whether a text has all words of a filter, and none of those with a `!`. */
export function hasWords(all: string, filter: string): boolean {
  const lower = all.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .every((word) => (word.startsWith("!") && word.length > 1 ? !lower.includes(word.slice(1)) : lower.includes(word)));
}
