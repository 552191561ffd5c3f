// A shell in one of a pod's containers.
import { useEffect, useRef, useState } from "preact/hooks";
import { PODS, one } from "../api/paths";
import type { KubeObject } from "../api/types";
import { Button } from "../parts/basics";
import { visible } from "../parts/show";
import { scheme } from "../state/settings";
import { t } from "../text";
import { containersOf } from "./containers";

// Whichever shell the image has.
const COMMAND = ["sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash || exec sh"];

export function TerminalTab({ tenant, object }: { tenant: string; object: KubeObject }) {
  const names = containersOf(object).map((each) => each.name);
  const [container, setContainer] = useState(names.at(-1) ?? "");
  const [round, setRound] = useState(0);
  const [ended, setEnded] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let close: (() => void) | null = null;
    let isShown = true;
    setEnded(null);
    const parameters = new URLSearchParams({ container, stdin: "true", stdout: "true", tty: "true" });
    COMMAND.forEach((word) => parameters.append("command", word));
    const path = `${one(tenant, PODS, object.metadata.namespace ?? "", object.metadata.name, "exec")}?${parameters}`;
    void import("../terminal/screen").then(({ Screen }) => {
      if (!isShown || !box.current) return;
      const screen = new Screen(box.current, path, { onEnd: setEnded });
      close = () => screen.close();
    });
    return () => {
      isShown = false;
      close?.();
    };
  }, [object.metadata.uid, container, round, scheme.value]);
  return (
    <div class="editing">
      <div class="tools">
        {names.length > 1 && (
          <select value={container} aria-label={t().container} onChange={(event) => setContainer(event.currentTarget.value)}>
            {names.map((name) => (
              <option key={name} value={name}>
                {visible(name)}
              </option>
            ))}
          </select>
        )}
        {ended !== null && (
          <>
            <span role="status">
              {t().ended} {visible(ended)}
            </span>
            <Button onClick={() => setRound(round + 1)}>{t().again}</Button>
          </>
        )}
      </div>
      <div class="terminal-box" ref={box} />
    </div>
  );
}
