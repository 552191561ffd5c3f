// Applies YAML: first as a dry run, whose outcome is shown, then in earnest.
import { useMemo, useState } from "preact/hooks";
import { ApiError, YAML, call, message, text } from "../api/http";
import { one, query } from "../api/paths";
import type { Kind } from "../api/types";
import { manifests, unversioned, withoutManagedFields, type Manifest } from "../api/yaml";
import { Badge, Button, Problem, toast } from "../parts/basics";
import { DiffView } from "../parts/diff";
import { Editor } from "../parts/editor";
import { problemsOf, type LineProblem } from "../editor/problems";
import { visible } from "../parts/show";
import { route } from "../state/route";
import { kindNamed, kindOf, namespace, refreshKinds } from "../state/tenant";
import { t } from "../text";

const APPLY = "application/apply-patch+yaml";

interface Outcome {
  title: string;
  result: "created" | "changed" | "same" | "failed";
  problem: string;
  lines: LineProblem[];
  before: string;
  after: string;
}

/** Kinds that have no `spec`. */
const BODIES: Record<string, string> = { configmaps: "data:\n", secrets: "stringData:\n", roles: "rules:\n", clusterroles: "rules:\n", rolebindings: "roleRef:\nsubjects:\n", clusterrolebindings: "roleRef:\nsubjects:\n", serviceaccounts: "", namespaces: "", storageclasses: "provisioner:\n" };

function template(): string {
  const kind = kindOf(route.value.query["kind"] ?? "");
  if (!kind) return "";
  const version = kind.group ? `${kind.group}/${kind.version}` : kind.version;
  const space = kind.namespaced ? `\n  namespace: ${namespace.value || "default"}` : "";
  return `apiVersion: ${version}\nkind: ${kind.kind}\nmetadata:\n  name: ${space}\n${BODIES[kind.resource] ?? "spec:\n"}`;
}

export function ApplyView({ tenant }: { tenant: string }) {
  const [edited, setEdited] = useState(template());
  const [outcomes, setOutcomes] = useState<Outcome[] | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async (isDryRun: boolean) => {
    setBusy(true);
    const found: Outcome[] = [];
    // One after the other: a later object may need an earlier one.
    for (const each of manifests(edited)) found.push(await apply(tenant, each, isDryRun));
    setOutcomes(found);
    setBusy(false);
    if (!isDryRun && found.every((each) => each.result !== "failed")) {
      toast(t().applied);
      refreshKinds();
    }
  };
  const marked = useMemo(() => (outcomes ?? []).flatMap((each) => each.lines), [outcomes]);
  const isAcceptable = !!outcomes?.length && outcomes.every((each) => each.result !== "failed") && outcomes.some((each) => each.result !== "same");
  return (
    <section class="view">
      <header class="view-head">
        <h1>{t().apply}</h1>
        <span class="space" />
        <Button disabled={isBusy || !edited.trim()} onClick={() => void run(true)}>
          {t().tryIt}
        </Button>
        <Button kind="primary" disabled={isBusy || !isAcceptable} onClick={() => void run(false)}>
          {t().applyNow}
        </Button>
      </header>
      <p class="lead">{t().applyLead}</p>
      <div class="split">
        <Editor
          tenant={tenant}
          label={t().yaml}
          value={edited}
          problems={marked}
          onChange={(next) => {
            setEdited(next);
            setOutcomes(null);
          }}
        />
        {outcomes && (
          <div class="outcomes" aria-live="polite">
            {!outcomes.length && <Problem text={t().nothingToApply} />}
            {outcomes.map((each, at) => (
              <section class="card" key={at}>
                <h2>
                  {visible(each.title)} <Badge text={t().outcomes[each.result]} kind={each.result === "failed" ? "bad" : each.result === "same" ? "" : "good"} />
                </h2>
                {each.problem && <Problem text={each.problem} />}
                {each.result === "changed" && <DiffView before={each.before} after={each.after} />}
              </section>
            ))}
          </div>
        )}
      </div>
    </section>
  );
}

async function apply(tenant: string, manifest: Manifest, isDryRun: boolean): Promise<Outcome> {
  const title = `${manifest.kind || "?"} ${manifest.name || "?"}`;
  const failed = (problem: string, lines: LineProblem[] = [{ line: 0, message: problem }]): Outcome => {
    const shown = lines.map((each) => ({ ...each, line: manifest.line + each.line }));
    return { title, result: "failed", problem, lines: shown, before: "", after: "" };
  };
  if (!manifest.kind || !manifest.apiVersion || !manifest.name) return failed(t().needsKind);
  const served = kindNamed(manifest.apiVersion, manifest.kind);
  if (!served) return failed(t().unknownKind(`${manifest.apiVersion} ${manifest.kind}`));
  const kind: Kind = { ...served, version: manifest.apiVersion.split("/").at(-1) ?? served.version };
  const path = one(tenant, kind, manifest.namespace || namespace.value || "default", manifest.name);
  try {
    const before = await stored(path);
    const parameters = { fieldManager: "alcove-console", fieldValidation: "Strict", force: true, dryRun: isDryRun ? "All" : "" };
    const response = await call("PATCH", path + query(parameters), { body: manifest.text, type: APPLY, accept: YAML });
    const after = withoutManagedFields(await response.text());
    const result = !before ? "created" : unversioned(before) === unversioned(after) ? "same" : "changed";
    return { title, result, problem: "", lines: [], before: unversioned(before), after: unversioned(after) };
  } catch (error) {
    return failed(message(error), error instanceof ApiError ? problemsOf(error, manifest.text) : []);
  }
}

async function stored(path: string): Promise<string> {
  try {
    return withoutManagedFields(await text(path, YAML));
  } catch (error) {
    if (error instanceof ApiError && error.code === 404) return "";
    throw error;
  }
}
