// Questions to APIs that have no watch: asked again while somebody looks.
import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { message } from "../api/http";

/** Asks at once and then every `ms`, not in a hidden tab, never twice at the same time; the result is the last error. */
export function useRepeated(ask: () => Promise<void>, ms: number, key: string): string {
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isShown = true;
    let isAsking = false;
    const run = async () => {
      if (document.hidden || isAsking) return;
      isAsking = true;
      try {
        await ask();
        if (isShown) setProblem("");
      } catch (error) {
        if (isShown) setProblem(message(error));
      } finally {
        isAsking = false;
      }
    };
    void run();
    const timer = setInterval(() => void run(), ms);
    return () => {
      isShown = false;
      clearInterval(timer);
    };
  }, [key]);
  return problem;
}

/** A signal's value, taken every `ms` at most: for what changes many times a second and takes long to draw. */
export function useSlowed<T>(signal: ReadonlySignal<T>, ms: number): T {
  const [value, setValue] = useState(signal.peek());
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last = -Infinity;
    const stop = signal.subscribe(() => {
      timer ??= setTimeout(() => {
        timer = undefined;
        last = performance.now();
        setValue(signal.peek());
      }, Math.max(0, last + ms - performance.now()));
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [signal]);
  return value;
}
