// The keys, shown by `?`.
import { signal } from "@preact/signals";
import { t } from "../text";
import { Dialog } from "./basics";

export const keyHelpOpen = signal(false);

export function KeyHelp() {
  const help = t().keyHelp;
  const keys: [string, string][] = [
    [":", help.command],
    ["/", help.filter],
    ["?", help.help],
    ["j k ↓ ↑", help.move],
    ["Enter", help.open],
    ["y", help.yaml],
    ["l", help.logs],
    ["Delete", help.remove],
    ["Esc", help.back],
  ];
  return (
    <Dialog title={t().keys} onClose={() => (keyHelpOpen.value = false)}>
      <dl class="keys">
        {keys.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              {key.split(" ").map((each) => (
                <kbd key={each}>{each}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
