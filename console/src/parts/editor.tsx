// A text with line numbers that can be edited.
import { useRef } from "preact/hooks";

export function Editor(props: { label: string; value: string; isReadOnly?: boolean; onChange: (text: string) => void }) {
  const gutter = useRef<HTMLPreElement>(null);
  const count = props.value.split("\n").length;
  return (
    <div class="editor">
      <pre class="gutter" ref={gutter} aria-hidden="true">
        {Array.from({ length: count }, (_, at) => at + 1).join("\n")}
      </pre>
      <textarea
        aria-label={props.label}
        value={props.value}
        readOnly={props.isReadOnly}
        spellcheck={false}
        autocapitalize="off"
        wrap="off"
        onScroll={(event) => gutter.current && (gutter.current.scrollTop = event.currentTarget.scrollTop)}
        onInput={(event) => props.onChange(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Tab" || event.shiftKey || props.isReadOnly) return;
          event.preventDefault();
          const area = event.currentTarget;
          area.setRangeText("  ", area.selectionStart, area.selectionEnd, "end");
          props.onChange(area.value);
        }}
      />
    </div>
  );
}
