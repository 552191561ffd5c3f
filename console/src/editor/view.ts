// The YAML editor (CodeMirror). Loaded only when somebody looks at YAML.
//
// It lives in a shadow root: there CodeMirror's styles are style sheets made by script, which the page's policy allows,
// where in the page itself they would be style elements, which it forbids.
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, bracketMatching, foldGutter, foldKeymap, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { visible } from "../parts/show";
import { completions, hints, type Knowledge } from "./completion";
import type { LineProblem } from "./problems";

export interface EditorOptions extends Knowledge {
  label: string;
  text: string;
  phrases: Record<string, string>;
  onChange: (text: string) => void;
}

export class TextEditor {
  private readonly view: EditorView;
  private readonly editable = new Compartment();

  constructor(box: HTMLElement, options: EditorOptions) {
    const root = box.shadowRoot ?? box.attachShadow({ mode: "open" });
    this.view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: options.text,
        extensions: [
          lineNumbers(), foldGutter(), highlightActiveLineGutter(), highlightActiveLine(), history(), drawSelection(), bracketMatching(), highlightSelectionMatches(),
          highlightSpecialChars({ addSpecialChars: /[\u200c-\u200f\u202a-\u202e\u2060-\u206f\ufff9-\ufffb]/, render: specialChar }),
          yaml(), indentUnit.of("  "), EditorState.tabSize.of(2), syntaxHighlighting(COLOURS), search({ top: true }), lintGutter(),
          autocompletion({ override: [completions(options)], icons: false }), hints(options),
          keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap, ...lintKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false", autocapitalize: "off" }),
          EditorState.phrases.of(options.phrases),
          EditorView.updateListener.of((update) => update.docChanged && options.onChange(update.state.doc.toString())),
          this.editable.of([]), THEME,
        ],
      }),
    });
  }

  /** Shows another text; one that is shown already is left with its cursor. */
  show(text: string): void {
    const length = this.view.state.doc.length;
    if (this.view.state.doc.toString() !== text) this.view.dispatch({ changes: { from: 0, to: length, insert: text } });
  }

  setReadOnly(isReadOnly: boolean): void {
    this.view.dispatch({ effects: this.editable.reconfigure(isReadOnly ? EditorState.readOnly.of(true) : []) });
  }

  mark(problems: readonly LineProblem[]): void {
    const { doc } = this.view.state;
    const marks = problems.map(({ line, message }) => {
      const at = doc.line(Math.min(doc.lines, Math.max(1, line + 1)));
      const from = at.from + (at.length - at.text.trimStart().length);
      return { from, to: at.to, severity: "error" as const, message: visible(message) };
    });
    this.view.dispatch(setDiagnostics(this.view.state, marks.sort((a, b) => a.from - b.from)));
    if (marks[0]) this.view.dispatch({ effects: EditorView.scrollIntoView(marks[0].from, { y: "center" }) });
  }

  close(): void {
    this.view.destroy();
  }
}

function specialChar(code: number): HTMLElement {
  const shown = document.createElement("span");
  shown.className = "special";
  shown.textContent = `\\u${code.toString(16).padStart(4, "0")}`;
  return shown;
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent-text)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.comment, tags.lineComment, tags.meta], color: "var(--muted-text)", fontStyle: "italic" },
  { tag: [tags.keyword, tags.labelName, tags.typeName], color: "var(--warn-text)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--panel)", fontSize: "12.5px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "19px" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--page)", color: "var(--muted-text)", border: "none", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--hover) 60%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-selectionMatch, .cm-searchMatch": { backgroundColor: "var(--warn-soft)" },
  ".cm-searchMatch-selected": { outline: "1px solid var(--warn)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)" },
  ".special": { color: "var(--bad-text)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "6px", boxShadow: "var(--shadow)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "2px 8px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--muted-text)", fontStyle: "normal" },
  ".cm-completionMatchedText": { textDecoration: "none", color: "var(--accent-text)", fontWeight: "600" },
  ".hint": { maxWidth: "min(44ch, 70vw)", padding: "6px 10px", fontSize: "12px", whiteSpace: "pre-wrap", overflowWrap: "anywhere", maxHeight: "16em", overflowY: "auto", display: "grid", gap: "4px" },
  ".hint-head": { fontFamily: "var(--mono)", color: "var(--accent-text)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", overflowWrap: "anywhere", maxWidth: "60ch" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-panels": { backgroundColor: "var(--page)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-panel input, .cm-panel button": { color: "var(--text)", backgroundColor: "var(--panel)", backgroundImage: "none", border: "1px solid var(--line-strong)", borderRadius: "4px" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--hover)", border: "none", color: "var(--muted-text)", padding: "0 4px" },
});
