// What the user may do, as the server tells it (SelfSubjectRulesReview): what may not be done is not offered.
//
// It only decides what is shown. Whether a request is allowed is decided by the server, again and for every request.
import { json } from "./http";
import type { Kind } from "./types";

interface Rule {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
}

export class Access {
  constructor(private readonly rules: Rule[]) {}

  /** Whether anything at all can be changed. */
  get mayPatch(): boolean {
    return this.rules.some((rule) => has(rule.verbs, "patch"));
  }

  may(verb: string, kind: { group: string; resource: string }, name = "", subresource = ""): boolean {
    const resource = subresource ? `${kind.resource}/${subresource}` : kind.resource;
    return this.rules.some(
      (rule) =>
        has(rule.verbs, verb) &&
        has(rule.apiGroups ?? [], kind.group) &&
        (has(rule.resources ?? [], resource) || (!!subresource && (rule.resources ?? []).includes(`*/${subresource}`))) &&
        (!rule.resourceNames?.length || rule.resourceNames.includes(name)),
    );
  }
}

function has(values: string[], wanted: string): boolean {
  return values.includes("*") || values.includes(wanted);
}

export const NOTHING = new Access([]);

const asked = new Map<string, Promise<Access>>();

/** The rights in a namespace; those without one are the same in all of them. */
export function accessIn(tenant: string, namespace: string): Promise<Access> {
  const key = `${tenant}/${namespace}`;
  let answer = asked.get(key);
  if (!answer) {
    answer = review(tenant, namespace || "default");
    answer.catch(() => asked.delete(key));
    asked.set(key, answer);
    setTimeout(() => asked.delete(key), 60_000);
  }
  return answer;
}

async function review(tenant: string, namespace: string): Promise<Access> {
  const body = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace } };
  const path = `/tenants/${encodeURIComponent(tenant)}/apis/authorization.k8s.io/v1/selfsubjectrulesreviews`;
  const answer = await json<{ status: { resourceRules?: Rule[] } }>("POST", path, body);
  return new Access(answer.status.resourceRules ?? []);
}

export function canList(access: Access, kind: Kind): boolean {
  return kind.verbs.includes("list") && access.may("list", kind);
}
