// Requests to the API, through the server that served this page and with the credential that it keeps for us.
import { signal } from "@preact/signals";

const BASE = "/console/k8s";

/** Only scripts of this origin can send it, which is how the server tells our requests from those of other sites. */
const OWN = { "X-Alcove-Console": "1" };

export const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
export const YAML = "application/yaml";

/** Becomes true when the server no longer knows who we are. */
export const signedOut = signal(false);

export class ApiError extends Error {
  constructor(
    readonly code: number,
    readonly reason: string,
    message: string,
    /** The fields that the server finds wrong. */
    readonly causes: readonly { field: string; message: string }[] = [],
  ) {
    super(message);
  }
}

export interface Options {
  body?: string;
  type?: string;
  accept?: string;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** The response, whatever it is for; raises ApiError for one that tells of an error. */
export async function call(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...OWN, Accept: options.accept ?? "application/json", ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = options.type ?? "application/json";
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store", redirect: "error" };
  if (options.body !== undefined) init.body = options.body;
  if (options.signal) init.signal = options.signal;
  let response: Response;
  try {
    response = await fetch(path.startsWith("/console/") ? path : BASE + path, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "Unreachable", "the server cannot be reached");
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (error.code === 401 && path !== "/console/session") signedOut.value = true;
  throw error;
}

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const status = JSON.parse(text) as { message?: string; reason?: string; details?: { causes?: { field?: string; message?: string }[] } };
    const causes = (status.details?.causes ?? []).map((cause) => ({ field: cause.field ?? "", message: `${cause.field ?? ""}: ${cause.message ?? ""}` }));
    return new ApiError(response.status, status.reason ?? "", status.message ?? text, causes);
  } catch {
    return new ApiError(response.status, "", text.slice(0, 500) || `HTTP ${response.status}`);
  }
}

export async function json<T>(method: string, path: string, body?: unknown, options: Options = {}): Promise<T> {
  const sent = body === undefined ? options : { ...options, body: JSON.stringify(body) };
  const response = await call(method, path, sent);
  return (await response.json()) as T;
}

export async function text(path: string, accept: string, signal?: AbortSignal): Promise<string> {
  const response = await call("GET", path, signal ? { accept, signal } : { accept });
  return response.text();
}

/** The lines of a streamed response, as they arrive. */
export async function* lines(response: Response): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      yield* parts;
    }
    if (rest) yield rest;
  } finally {
    // Ends the request; without it, the connection would stay open.
    await reader.cancel().catch(() => undefined);
  }
}

export function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
