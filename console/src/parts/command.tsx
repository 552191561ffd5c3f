// The command line, opened by `:` as in k9s: a few letters of a kind, a namespace or a view, then Enter.
import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { canList } from "../api/access";
import { kindKey } from "../api/paths";
import { go } from "../state/route";
import { isRing0 } from "../state/session";
import { access, kinds, namespace, namespaces, tenant } from "../state/tenant";
import { t } from "../text";
import { visible } from "./show";

export const commandOpen = signal(false);

interface Target {
  title: string;
  hint: string;
  words: string[];
  open: () => void;
}

const SHOWN_MAX = 12;

export function CommandLine() {
  const input = useRef<HTMLInputElement>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const all = useMemo(targets, [kinds.value, namespaces.value, tenant.value]);
  const found = rank(all, text).slice(0, SHOWN_MAX);
  useEffect(() => {
    dialog.current!.showModal();
    input.current!.focus();
  }, []);
  const close = () => (commandOpen.value = false);
  const open = (target: Target | undefined) => {
    if (!target) return;
    close();
    target.open();
  };
  return (
    <dialog
      ref={dialog}
      class="command"
      aria-label={t().goTo}
      onCancel={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="targets"
        aria-label={t().goTo}
        placeholder={t().goTo}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setChosen(Math.min(chosen + 1, found.length - 1));
          else if (event.key === "ArrowUp") setChosen(Math.max(chosen - 1, 0));
          else if (event.key === "Enter") open(found[chosen]);
          else return;
          event.preventDefault();
        }}
      />
      <ul id="targets" role="listbox">
        {found.map((target, at) => (
          <li key={target.title + target.hint} role="option" aria-selected={at === chosen} class={at === chosen ? "chosen" : ""} onClick={() => open(target)}>
            <span>{visible(target.title)}</span>
            <span class="hint">{visible(target.hint)}</span>
          </li>
        ))}
        {!found.length && <li class="none">{t().noMatch}</li>}
      </ul>
    </dialog>
  );
}

function targets(): Target[] {
  const at = tenant.value;
  const view = (title: string, parts: string[]): Target => ({ title, hint: at, words: [title.toLowerCase()], open: () => go(parts) });
  return [
    ...(isRing0() ? [view(t().tenants, ["tenants"])] : []),
    view(t().overview, ["t", at]),
    view(t().map, ["t", at, "map"]),
    view(t().flows, ["t", at, "flows"]),
    view(t().apply, ["t", at, "apply"]),
    ...kinds.value
      .filter((kind) => canList(access.value, kind))
      .map((kind) => ({
        title: kind.resource,
        hint: kind.group,
        words: [kind.resource, ...kind.shortNames, kind.kind.toLowerCase()],
        open: () => go(["t", at, "k", kindKey(kind)]),
      })),
    ...["", ...namespaces.value].map((name) => ({
      title: name || t().allNamespaces,
      hint: t().namespace,
      words: [name, `ns ${name}`],
      open: () => {
        namespace.value = name;
      },
    })),
  ];
}

/** Exact names first, then those that begin with the text, then those that have it. */
function rank(all: Target[], text: string): Target[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return all;
  const score = (target: Target) => {
    if (target.words.includes(wanted)) return 0;
    if (target.words.some((word) => word.startsWith(wanted))) return 1;
    return target.words.some((word) => word.includes(wanted)) ? 2 : 3;
  };
  return all
    .map((target) => ({ target, score: score(target) }))
    .filter((each) => each.score < 3)
    .sort((a, b) => a.score - b.score)
    .map((each) => each.target);
}
