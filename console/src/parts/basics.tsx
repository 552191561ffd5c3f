// Small parts that many views use.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { type Feed } from "../api/feed";
import { t } from "../text";
import { tone, visible } from "./show";

/** A word for a state: in a colour, and with a sign, so that colour alone tells nothing. */
export function Badge({ text, kind }: { text: string; kind?: "good" | "warn" | "bad" | "" }) {
  const shown = kind ?? tone(text);
  const sign = shown === "good" ? "●" : shown === "bad" ? "✕" : shown === "warn" ? "◐" : "";
  return (
    <span class={`badge ${shown}`}>
      {sign && <span aria-hidden="true">{sign} </span>}
      {visible(text)}
    </span>
  );
}

export function Button(props: {
  onClick: () => void;
  children: ComponentChildren;
  kind?: "primary" | "danger" | "plain" | "quiet";
  /** Why it cannot be used: said to who points at it, and to who tries it by a touch or a key. */
  denied?: string | undefined;
  disabled?: boolean;
  title?: string;
  /** For screen readers, where what is shown is a sign. */
  label?: string;
  pressed?: boolean;
}) {
  return (
    <button
      type="button"
      class={props.kind ?? ""}
      disabled={props.disabled}
      aria-disabled={props.denied ? true : undefined}
      title={props.denied || props.title}
      aria-label={props.label}
      aria-pressed={props.pressed}
      onClick={() => (props.denied ? toast(props.denied, "bad") : props.onClick())}
    >
      {props.children}
    </button>
  );
}

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current!.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={props.wide ? "wide" : ""}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => event.target === dialog.current && props.onClose()}
    >
      <div class="dialog-body">
        <header>
          <h2>{props.title}</h2>
          <button type="button" class="plain" aria-label={t().close} onClick={props.onClose}>
            ✕
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

export function Problem({ text }: { text: string }) {
  return (
    <div class="problem" role="alert">
      <span aria-hidden="true">✕ </span>
      {visible(text)}
    </div>
  );
}

/** Whether a feed is live, with a word for it. */
export function LiveDot({ feed }: { feed: Feed }) {
  const state = feed.state.value;
  const word = state === "live" ? t().live : state === "loading" ? t().loading : t().stale;
  return (
    <span class={`live ${state}`} role="status">
      <span aria-hidden="true">●</span> {word}
    </span>
  );
}

interface Toast {
  id: number;
  text: string;
  kind: "good" | "bad";
}

const toasts = signal<Toast[]>([]);
let next = 0;

export function toast(text: string, kind: "good" | "bad" = "good"): void {
  const id = next++;
  toasts.value = [...toasts.value, { id, text, kind }];
  setTimeout(() => (toasts.value = toasts.value.filter((each) => each.id !== id)), kind === "bad" ? 9_000 : 4_000);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((each) => (
        <div key={each.id} class={`toast ${each.kind}`}>
          {visible(each.text)}
        </div>
      ))}
    </div>
  );
}

export function Tabs(props: { tabs: { id: string; title: string }[]; current: string; onChoose: (id: string) => void }) {
  return (
    <div class="tabs" role="tablist">
      {props.tabs.map((tab) => (
        <button
          type="button"
          role="tab"
          key={tab.id}
          aria-selected={tab.id === props.current}
          class={tab.id === props.current ? "tab current" : "tab"}
          onClick={() => props.onChoose(tab.id)}
        >
          {tab.title}
        </button>
      ))}
    </div>
  );
}

/** Follows a feed while the part that uses it is shown. */
export function useFeed<F extends Feed>(make: () => F, key: string): F {
  const held = useRef<{ key: string; feed: F } | null>(null);
  if (held.current?.key !== key) held.current = { key, feed: make() };
  const feed = held.current.feed;
  useEffect(() => feed.start(), [feed]);
  return feed;
}

/** A small line of the last values. */
export function Sparkline({ values, label }: { values: number[]; label: string }) {
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, at) => `${((at / Math.max(1, values.length - 1)) * 60).toFixed(1)},${(15 - (value / most) * 13).toFixed(1)}`);
  return (
    <svg class="spark" viewBox="0 0 60 16" width="60" height="16" role="img" aria-label={label}>
      {values.length > 1 && <polyline points={points.join(" ")} />}
    </svg>
  );
}

export function copyText(text: string): void {
  void navigator.clipboard.writeText(text).then(() => toast(t().copied));
}
