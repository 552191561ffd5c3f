// A table of any number of rows: only those on screen are in the document.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { t } from "../text";

export interface TableColumn<R> {
  id: string;
  title: string;
  hint?: string;
  text: (row: R) => string;
  /** For sorting; the text if there is none. */
  value?: (row: R) => string | number;
  draw?: (row: R) => ComponentChildren;
  numeric?: boolean;
  /** Takes the room that others leave. */
  wide?: boolean;
  /** Stays in view at the right when there is not room for all. */
  pinned?: boolean;
}

interface Props<R> {
  label: string;
  columns: TableColumn<R>[];
  rows: R[];
  keyOf: (row: R) => string;
  href?: (row: R) => string;
  sort: string;
  onSort: (sort: string) => void;
  onKey?: (key: string, row: R) => boolean;
  empty: string;
}

const ROW_HEIGHT = 30;
const OVERSCAN = 8;
const SAMPLE = 200;
const CHARS_MAX = 44;
const FIRST_CHARS_MAX = 64;

export function VirtualTable<R>(props: Props<R>) {
  const { columns, keyOf } = props;
  const rows = useMemo(() => sorted(props.rows, columns, props.sort), [props.rows, columns, props.sort]);
  const body = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ first: 0, count: 40 });
  const [chosen, setChosen] = useState("");
  const template = useMemo(() => widths(columns, rows), [columns, rows.length > 0 && rows[0], columns.length]);

  const measure = () => {
    const box = body.current;
    if (!box) return;
    const first = Math.max(0, Math.floor(box.scrollTop / ROW_HEIGHT) - OVERSCAN);
    const count = Math.ceil(box.clientHeight / ROW_HEIGHT) + 2 * OVERSCAN;
    setView((old) => (old.first === first && old.count === count ? old : { first, count }));
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(body.current!);
    return () => observer.disconnect();
  }, []);

  const index = rows.findIndex((row) => keyOf(row) === chosen);
  const choose = (to: number) => {
    const target = Math.min(rows.length - 1, Math.max(0, to));
    const row = rows[target];
    const box = body.current;
    if (!row || !box) return;
    setChosen(keyOf(row));
    const top = target * ROW_HEIGHT;
    const room = box.clientHeight - 2 * ROW_HEIGHT;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top > box.scrollTop + room) box.scrollTop = top - room;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // What is typed in a dialog that a row has opened is not for the table.
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target as Element).closest("dialog")) return;
    const page = Math.max(1, Math.floor((body.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
    const steps: Record<string, number> = {
      ArrowDown: index + 1, j: index + 1, ArrowUp: index - 1, k: index - 1, PageDown: index + page, PageUp: index - page,
      Home: 0, g: 0, End: rows.length - 1, G: rows.length - 1,
    };
    const to = steps[event.key];
    const row = rows[index];
    if (to !== undefined) choose(to);
    else if (event.key === "Enter" && row && props.href) location.hash = props.href(row);
    else if (!(row && props.onKey?.(event.key, row))) return;
    event.preventDefault();
  };

  const shown = rows.slice(view.first, view.first + view.count);
  return (
    <div
      class="table"
      role="grid"
      aria-label={props.label}
      aria-rowcount={rows.length + 1}
      tabIndex={0}
      ref={body}
      onScroll={measure}
      onKeyDown={onKeyDown}
      data-rows={rows.length}
    >
      <div class="table-inner" style={{ "--columns": template }}>
        <div class="row head" role="row" aria-rowindex={1}>
          {columns.map((column) => (
            <Heading key={column.id} column={column} sort={props.sort} onSort={props.onSort} />
          ))}
        </div>
        <div role="rowgroup" class="rows" style={{ height: `${rows.length * ROW_HEIGHT}px` }}>
          {shown.map((row, offset) => {
            const at = view.first + offset;
            const key = keyOf(row);
            const href = props.href?.(row);
            return (
              <div
                class={key === chosen ? "row chosen" : "row"}
                role="row"
                aria-rowindex={at + 2}
                aria-selected={key === chosen}
                key={key}
                style={{ transform: `translateY(${at * ROW_HEIGHT}px)` }}
                onClick={(event) => {
                  setChosen(key);
                  if (href && !(event.target as Element).closest("a, button, dialog") && !getSelection()?.toString()) location.hash = href;
                }}
              >
                {columns.map((column, position) => (
                  <div class={`cell${column.numeric ? " number" : ""}${column.pinned ? " pinned" : ""}`} role="gridcell" key={column.id} title={column.text(row)}>
                    {href && position === 0 ? (
                      <a href={href} tabIndex={-1}>
                        {column.draw?.(row) ?? column.text(row)}
                      </a>
                    ) : (
                      (column.draw?.(row) ?? column.text(row))
                    )}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
      {rows.length === 0 && <p class="empty">{props.empty}</p>}
    </div>
  );
}

function Heading<R>({ column, sort, onSort }: { column: TableColumn<R>; sort: string; onSort: (sort: string) => void }) {
  const up = sort === column.id;
  const down = sort === `-${column.id}`;
  return (
    <div
      class={`cell${column.numeric ? " number" : ""}${column.pinned ? " pinned" : ""}`}
      role="columnheader"
      aria-sort={up ? "ascending" : down ? "descending" : "none"}
    >
      {column.title && (
        <button
          type="button"
          class="plain"
          title={column.hint ?? t().sortBy(column.title)}
          onClick={() => onSort(up ? `-${column.id}` : column.id)}
        >
          {column.title}
          <span class="sorted" aria-hidden="true">
            {up ? "▲" : down ? "▼" : ""}
          </span>
        </button>
      )}
    </div>
  );
}

const collator = new Intl.Collator(undefined, { numeric: true });

function sorted<R>(rows: R[], columns: TableColumn<R>[], sort: string): R[] {
  const column = columns.find((each) => each.id === sort.replace(/^-/, ""));
  if (!column) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: (column.value ?? column.text)(row) }));
  keyed.sort((a, b) => sign * (typeof a.key === "number" && typeof b.key === "number" ? a.key - b.key : collator.compare(String(a.key), String(b.key))));
  return keyed.map((each) => each.row);
}

/** Widths by what the first rows have to show: they do not jump while one scrolls. */
function widths<R>(columns: TableColumn<R>[], rows: R[]): string {
  const sample = rows.slice(0, SAMPLE);
  const tracks = columns.map((column, at) => {
    const longest = sample.reduce((most, row) => Math.max(most, column.text(row).length), column.title.length + 2);
    const chars = Math.min(at === 0 ? FIRST_CHARS_MAX : CHARS_MAX, Math.max(4, longest)) + (column.numeric ? 1.5 : 3);
    return column.wide ? `minmax(${chars}ch, 1fr)` : `${chars}ch`;
  });
  // What no column takes is left empty at the end, so that values stay beside their names.
  return [...tracks, ...(columns.some((column) => column.wide) ? [] : ["1fr"])].join(" ");
}
