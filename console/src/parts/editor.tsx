// YAML that can be edited. The editor itself is loaded when the first is shown.
import { useEffect, useRef } from "preact/hooks";
import type { LineProblem } from "../editor/problems";
import type { TextEditor } from "../editor/view";
import { kinds } from "../state/tenant";
import { t } from "../text";

interface Props {
  tenant: string;
  label: string;
  value: string;
  problems: readonly LineProblem[];
  isReadOnly?: boolean;
  onChange: (text: string) => void;
}

export function Editor(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const editor = useRef<TextEditor | null>(null);
  const latest = useRef(props);
  latest.current = props;
  // What was typed and has not come back as `value` yet: by then more may have been typed, which must not be undone.
  const typed = useRef<string[]>([]);
  const follow = () => {
    const { value } = latest.current;
    const at = typed.current.indexOf(value);
    typed.current.splice(0, at < 0 ? Infinity : at + 1);
    if (at < 0) editor.current?.show(value);
  };
  useEffect(() => {
    let isShown = true;
    void import("../editor/view").then(({ TextEditor }) => {
      if (!isShown || !box.current) return;
      const { tenant, label, value } = latest.current;
      const onChange = (text: string) => {
        if (text === latest.current.value) return;
        typed.current.push(text);
        latest.current.onChange(text);
      };
      editor.current = new TextEditor(box.current, { tenant, label, text: value, phrases: t().editor, kinds: () => kinds.peek(), onChange });
      editor.current.setReadOnly(!!latest.current.isReadOnly);
      editor.current.mark(latest.current.problems);
      box.current.setAttribute("aria-busy", "false");
    });
    return () => {
      isShown = false;
      editor.current?.close();
      editor.current = null;
    };
  }, [props.tenant, props.label]);
  useEffect(follow, [props.value]);
  useEffect(() => editor.current?.setReadOnly(!!props.isReadOnly), [props.isReadOnly]);
  useEffect(() => editor.current?.mark(props.problems), [props.problems]);
  return <div class="editor" ref={box} aria-busy="true" />;
}
