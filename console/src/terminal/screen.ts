// A terminal on a process in a pod. Loaded only when somebody opens one.
//
// The page's policy allows no style that is not a file of ours, and xterm makes style elements. It is given a document in
// which these are something else: their text goes to a style sheet of the page's script, which the policy allows.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";

const PROTOCOL = "v5.channel.k8s.io";
const [STDIN, STDOUT, STDERR, STATUS, RESIZE] = [0, 1, 2, 3, 4];

export interface ScreenEvents {
  onEnd: (message: string) => void;
}

export class Screen {
  private readonly terminal: Terminal;
  private readonly fitting = new FitAddon();
  private readonly socket: WebSocket;
  private readonly observer: ResizeObserver;
  private readonly sheets: CSSStyleSheet[] = [];
  private status = "";

  constructor(box: HTMLElement, path: string, events: ScreenEvents) {
    const css = getComputedStyle(document.documentElement);
    const colour = (name: string) => css.getPropertyValue(name).trim();
    this.terminal = new Terminal({
      documentOverride: this.styledDocument(),
      fontFamily: colour("--mono"),
      fontSize: 13,
      cursorBlink: true,
      scrollback: 5000,
      theme: { background: colour("--panel"), foreground: colour("--text"), cursor: colour("--accent"), cursorAccent: colour("--panel"), selectionBackground: colour("--accent-soft") },
    } as ConstructorParameters<typeof Terminal>[0]);
    this.terminal.loadAddon(this.fitting);
    this.terminal.open(box);
    this.fitting.fit();
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/console/k8s${path}`, [PROTOCOL]);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.resize();
      this.terminal.focus();
    };
    this.socket.onmessage = (event: MessageEvent<ArrayBuffer>) => this.received(new Uint8Array(event.data));
    this.socket.onclose = (event) => events.onEnd(this.status || event.reason);
    this.terminal.onData((data) => this.send(STDIN!, new TextEncoder().encode(data)));
    this.terminal.onBinary((data) => this.send(STDIN!, Uint8Array.from(data, (char) => char.charCodeAt(0))));
    this.terminal.onResize(() => this.resize());
    this.observer = new ResizeObserver(() => this.fitting.fit());
    this.observer.observe(box);
  }

  close(): void {
    this.observer.disconnect();
    this.socket.onclose = null;
    this.socket.close();
    this.terminal.dispose();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !this.sheets.includes(sheet));
  }

  private received(message: Uint8Array): void {
    const data = message.subarray(1);
    if (message[0] === STDOUT || message[0] === STDERR) this.terminal.write(data);
    if (message[0] === STATUS) {
      const status = JSON.parse(new TextDecoder().decode(data)) as { status?: string; message?: string };
      this.status = status.status === "Success" ? "" : (status.message ?? "");
    }
  }

  private resize(): void {
    const size = { Width: this.terminal.cols, Height: this.terminal.rows };
    this.send(RESIZE!, new TextEncoder().encode(JSON.stringify(size)));
  }

  private send(channel: number, data: Uint8Array): void {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    const message = new Uint8Array(data.length + 1);
    message[0] = channel;
    message.set(data, 1);
    this.socket.send(message);
  }

  private styledDocument(): Document {
    const createElement = (tag: string, options?: ElementCreationOptions): HTMLElement => {
      if (tag !== "style") return document.createElement(tag, options);
      const sheet = new CSSStyleSheet();
      this.sheets.push(sheet);
      document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
      const standIn = document.createElement("template");
      Object.defineProperty(standIn, "textContent", { set: (text: string) => sheet.replaceSync(text) });
      return standIn;
    };
    return new Proxy(document, {
      get(target, name) {
        if (name === "createElement") return createElement;
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  }
}
