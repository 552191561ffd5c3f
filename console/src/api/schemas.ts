// The schemas of a tenant's kinds (OpenAPI v3): what completion and hints in the editor know.
//
// Schemas of custom kinds and of extension servers are written by tenants: any JSON may be in them, and a description
// is text like any other.
import { json } from "./http";

export interface Field {
  name: string;
  /** Such as `string`, `[]object`, `map[string]string`. */
  type: string;
  description: string;
  isRequired: boolean;
  values: string[];
  hasFields: boolean;
  isList: boolean;
}

type Fragment = Record<string, unknown>;

const REFERENCES_MAX = 20;
const FIELDS_MAX = 500;
const KEPT_MS = 60_000;
const PREFIX = "#/components/schemas/";

function fragment(value: unknown): Fragment {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Fragment) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function own(of: unknown, name: string): unknown {
  const found = fragment(of);
  return Object.hasOwn(found, name) ? found[name] : undefined;
}

/** The kinds of one group version. */
export class Schemas {
  private readonly all: Fragment;

  constructor(document: unknown) {
    this.all = fragment(own(own(document, "components"), "schemas"));
  }

  /** The fields of an object of the kind at a path such as ["spec", "containers", 0]. */
  fieldsAt(group: string, version: string, kind: string, path: readonly (string | number)[]): Field[] {
    const at = this.at(group, version, kind, path);
    const required = own(at, "required");
    const names = Array.isArray(required) ? required : [];
    return Object.entries(fragment(own(at, "properties")))
      .slice(0, FIELDS_MAX)
      .map(([name, schema]) => this.field(name, schema, names.includes(name)));
  }

  /** What is at the path itself; null if the schema does not say. */
  fieldAt(group: string, version: string, kind: string, path: readonly (string | number)[]): Field | null {
    const found = this.at(group, version, kind, path);
    if (!Object.keys(found).length) return null;
    const names = own(this.at(group, version, kind, path.slice(0, -1)), "required");
    const name = String(path.at(-1) ?? kind);
    return this.field(name, found, Array.isArray(names) && names.includes(name));
  }

  private at(group: string, version: string, kind: string, path: readonly (string | number)[]): Fragment {
    let schema = this.resolved(this.named(group, version, kind));
    for (const step of path) {
      const inside = typeof step === "number" ? own(schema, "items") : (own(own(schema, "properties"), step) ?? own(schema, "additionalProperties"));
      schema = this.resolved(inside);
    }
    return schema;
  }

  private named(group: string, version: string, kind: string): unknown {
    return Object.values(this.all).find((schema) => {
      const of = own(schema, "x-kubernetes-group-version-kind");
      return Array.isArray(of) && of.some((each) => own(each, "group") === group && own(each, "version") === version && own(each, "kind") === kind);
    });
  }

  /** What references lead to, with what is said beside them. */
  private resolved(schema: unknown): Fragment {
    let found = fragment(schema);
    for (let steps = 0; steps < REFERENCES_MAX; steps++) {
      const all = own(found, "allOf");
      const reference = text(own(found, "$ref")) || text(own(Array.isArray(all) ? all[0] : undefined, "$ref"));
      if (!reference.startsWith(PREFIX)) return found;
      const { $ref: _, allOf: __, ...beside } = found;
      found = { ...fragment(own(this.all, reference.slice(PREFIX.length))), ...beside };
    }
    return {};
  }

  private field(name: string, schema: unknown, isRequired: boolean): Field {
    const found = this.resolved(schema);
    const values = own(found, "enum");
    const type = this.typeOf(found);
    return {
      name,
      type,
      description: text(own(found, "description")),
      isRequired,
      values: type === "boolean" ? ["true", "false"] : Array.isArray(values) ? values.filter((each) => typeof each === "string") : [],
      hasFields: type === "object" || type.startsWith("map["),
      isList: type.startsWith("[]"),
    };
  }

  private typeOf(schema: Fragment, depth = 0): string {
    const type = text(own(schema, "type"));
    const inside = (name: string) => (depth < 3 ? this.typeOf(this.resolved(own(schema, name)), depth + 1) : "any");
    if (type === "array") return `[]${inside("items")}`;
    if (type === "object" && Object.keys(fragment(own(schema, "additionalProperties"))).length) return `map[string]${inside("additionalProperties")}`;
    if (type) return type;
    const either = own(schema, "oneOf");
    const types = Array.isArray(either) ? either.map((each) => text(own(each, "type"))).filter(Boolean) : [];
    return types.join(" | ") || (own(schema, "properties") ? "object" : "any");
  }
}

const asked = new Map<string, Promise<Schemas>>();

/** Of one group version of a tenant; kept for a minute. */
export function schemasOf(tenant: string, group: string, version: string): Promise<Schemas> {
  const path = group ? `apis/${encodeURIComponent(group)}/${encodeURIComponent(version)}` : `api/${encodeURIComponent(version)}`;
  const address = `/tenants/${encodeURIComponent(tenant)}/openapi/v3/${path}`;
  let answer = asked.get(address);
  if (!answer) {
    answer = json<unknown>("GET", address).then((document) => new Schemas(document));
    answer.catch(() => asked.delete(address));
    asked.set(address, answer);
    setTimeout(() => asked.delete(address), KEPT_MS);
  }
  return answer;
}
