// A kubeconfig for a tenant's administrator. The key is made in this browser and sent to nobody: the server signs a
// request for a certificate, as `alcove tenant kubeconfig` has it.
import { json, call } from "./http";
import type { KubeObject } from "./types";

const ADMIN = "admin";
const SIGNER = "kubernetes.io/kube-apiserver-client";

// The parts of DER that a PKCS#10 request needs.
function der(tag: number, ...parts: Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 255];
  const made = new Uint8Array(1 + length.length + size);
  made.set([tag, ...length]);
  let at = 1 + length.length;
  for (const part of parts) {
    made.set(part, at);
    at += part.length;
  }
  return made;
}

const sequence = (...parts: Uint8Array<ArrayBuffer>[]) => der(0x30, ...parts);
const set = (...parts: Uint8Array<ArrayBuffer>[]) => der(0x31, ...parts);
const utf8 = (text: string) => der(0x0c, new TextEncoder().encode(text));
const oid = (...octets: number[]) => der(0x06, Uint8Array.from(octets));
const COMMON_NAME = oid(0x55, 0x04, 0x03);
const ORGANIZATION = oid(0x55, 0x04, 0x0a);
const ECDSA_SHA256 = oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02);

function integer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  let at = 0;
  while (at < bytes.length - 1 && bytes[at] === 0) at++;
  const digits = [...bytes.slice(at)];
  return der(0x02, Uint8Array.from((digits[0] ?? 0) & 0x80 ? [0, ...digits] : digits));
}

function bits(content: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return der(0x03, Uint8Array.of(0), content);
}

async function signingRequest(keys: CryptoKeyPair, tenant: string): Promise<Uint8Array> {
  const name = sequence(set(sequence(ORGANIZATION, utf8(`tenant:${tenant}`))), set(sequence(COMMON_NAME, utf8(ADMIN))));
  const publicKey = new Uint8Array(await crypto.subtle.exportKey("spki", keys.publicKey));
  const info = sequence(der(0x02, Uint8Array.of(0)), name, publicKey, der(0xa0));
  const raw = new Uint8Array(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, keys.privateKey, info));
  const signature = sequence(integer(raw.slice(0, 32)), integer(raw.slice(32)));
  return sequence(info, sequence(ECDSA_SHA256), bits(signature));
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

function pem(label: string, bytes: Uint8Array): string {
  const lines = base64(bytes).match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}

/** The file's text. `server` is the API server's address. Needs a user of ring0 who may impersonate. */
export async function kubeconfig(tenant: string, server: string): Promise<string> {
  const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
  const root = `/tenants/${encodeURIComponent(tenant)}`;
  const path = `${root}/apis/certificates.k8s.io/v1/certificatesigningrequests`;
  const headers = { "Impersonate-User": ADMIN, "Impersonate-Tenant": tenant };
  const body = {
    apiVersion: "certificates.k8s.io/v1",
    kind: "CertificateSigningRequest",
    metadata: { name: `console-${crypto.randomUUID().slice(0, 8)}` },
    spec: { signerName: SIGNER, usages: ["client auth"], request: btoa(pem("CERTIFICATE REQUEST", await signingRequest(keys, tenant))) },
  };
  const request = await json<KubeObject>("POST", path, body, { headers });
  const one = `${path}/${request.metadata.name}`;
  let certificate: unknown;
  try {
    request.status = { conditions: [{ type: "Approved", status: "True", reason: "AlcoveConsole" }] };
    certificate = (await json<KubeObject>("PUT", `${one}/approval`, request, { headers })).status?.["certificate"];
  } finally {
    await call("DELETE", one, { headers });
  }
  if (typeof certificate !== "string") throw new Error("the certificate request was not signed");
  const authority = await json<KubeObject>("GET", `${root}/api/v1/namespaces/default/configmaps/kube-root-ca.crt`);
  const ca = btoa((authority["data"] as Record<string, string>)["ca.crt"] ?? "");
  const key = base64(new TextEncoder().encode(pem("PRIVATE KEY", new Uint8Array(await crypto.subtle.exportKey("pkcs8", keys.privateKey)))));
  return render(tenant, server, ca, certificate, key);
}

function render(tenant: string, server: string, ca: string, certificate: string, key: string): string {
  const user = `${ADMIN}@${tenant}`;
  return `apiVersion: v1
kind: Config
clusters:
- name: ${tenant}
  cluster:
    server: ${server}/tenants/${tenant}
    certificate-authority-data: ${ca}
users:
- name: ${user}
  user:
    client-certificate-data: ${certificate}
    client-key-data: ${key}
contexts:
- name: ${user}
  context:
    cluster: ${tenant}
    user: ${user}
    namespace: default
current-context: ${user}
`;
}

export function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
