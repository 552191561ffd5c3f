// Who is signed in, and what the server that served this page needs for it.
import { signal } from "@preact/signals";
import { ApiError, call, json, signedOut } from "../api/http";
import { SYSTEM } from "../api/paths";
import type { UserInfo } from "../api/types";

export interface Server {
  /** How one signs in: with a token, or by the command `alcove console`. */
  signIn: "token" | "command";
  /** The API server's address, where this page comes from another one. */
  server?: string;
  isSignedIn: boolean;
  /** Where users of ring0 can sign in. */
  providers?: Provider[];
}

/** An identity provider of a tenant. */
export interface Provider {
  name: string;
  displayName: string;
}

export interface User {
  name: string;
  groups: string[];
  tenant: string;
}

export const server = signal<Server>({ signIn: "token", isSignedIn: false });
/** undefined until it is known, null if nobody is signed in. */
export const user = signal<User | null | undefined>(undefined);

const WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TENANT = "alcove/tenant";
const SESSION = "/console/session";

export function isRing0(): boolean {
  return user.value?.tenant === SYSTEM;
}

export async function restore(): Promise<void> {
  server.value = await json<Server>("GET", SESSION);
  if (!server.value.isSignedIn) {
    user.value = null;
    return;
  }
  try {
    const body = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
    const review = await json<{ status: { userInfo: UserInfo } }>("POST", WHO_AM_I, body);
    user.value = userOf(review.status.userInfo);
    signedOut.value = false;
  } catch (error) {
    if (error instanceof ApiError && error.code !== 401) throw error;
    user.value = null;
  }
}

/** The identity providers by which users of a tenant can sign in; ring0's without one. */
export async function providersOf(tenant: string): Promise<Provider[]> {
  const found = await json<Server>("GET", `${SESSION}?tenant=${encodeURIComponent(tenant || SYSTEM)}`);
  return found.providers ?? [];
}

/** Leaves this page for the provider's, which comes back to the server, which comes back here. */
export async function signInAt(tenant: string, provider: string): Promise<void> {
  const { location: next } = await json<{ location: string }>("POST", "/console/oidc", { tenant, provider });
  location.assign(next);
}

export async function signIn(token: string, tenant: string): Promise<void> {
  const answer = await json<{ user: UserInfo }>("POST", SESSION, { token, tenant });
  signedOut.value = false;
  user.value = userOf(answer.user);
}

export async function signOut(): Promise<void> {
  await call("DELETE", SESSION);
  user.value = null;
  // Nothing of what was shown stays in memory.
  location.hash = "";
  location.reload();
}

function userOf(info: UserInfo): User {
  return { name: info.username, groups: info.groups ?? [], tenant: info.extra?.[TENANT]?.[0] ?? "" };
}
