// An object's YAML: read, edit, see what the server would make of it, apply.
import { useEffect, useState } from "preact/hooks";
import { ApiError, YAML, call, message, text } from "../api/http";
import { one, query } from "../api/paths";
import type { Kind, KubeObject } from "../api/types";
import type { Access } from "../api/access";
import { unversioned, withoutManagedFields } from "../api/yaml";
import { Button, Dialog, Problem, copyText, toast } from "../parts/basics";
import { DiffView } from "../parts/diff";
import { Editor } from "../parts/editor";
import { problemsOf, type LineProblem } from "../editor/problems";
import { t } from "../text";

const MANAGER = "alcove-console";

interface Props {
  tenant: string;
  kind: Kind;
  object: KubeObject;
  rights: Access;
}

export function YamlTab({ tenant, kind, object, rights }: Props) {
  const path = one(tenant, kind, object.metadata.namespace ?? "", object.metadata.name);
  const [stored, setStored] = useState("");
  const [edited, setEdited] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const [marked, setMarked] = useState<LineProblem[]>([]);
  const [result, setResult] = useState<string | null>(null);
  const version = object.metadata.resourceVersion;
  const load = async () => {
    setStored(withoutManagedFields(await text(path, YAML)));
    setEdited(null);
    setProblem("");
  };
  useEffect(() => {
    // Somebody else's change is not put under what the user writes.
    if (edited === null) void load().catch((error: unknown) => setProblem(message(error)));
  }, [version]);

  const put = async (isDryRun: boolean): Promise<string> => {
    const parameters = { fieldManager: MANAGER, fieldValidation: "Strict", dryRun: isDryRun ? "All" : "" };
    const response = await call("PUT", path + query(parameters), { body: edited ?? "", type: YAML, accept: YAML });
    return withoutManagedFields(await response.text());
  };
  const guarded = async (action: () => Promise<void>) => {
    setProblem("");
    setMarked([]);
    try {
      await action();
    } catch (error) {
      setResult(null);
      if (error instanceof ApiError) setMarked(problemsOf(error, edited ?? stored));
      setProblem(error instanceof ApiError && error.code === 409 ? `${t().changedMeanwhile} ${error.message}` : message(error));
    }
  };
  const denied = rights.may("update", kind, object.metadata.name) ? undefined : t().mayNot("update", kind.resource);
  return (
    <div class="editing">
      <div class="tools">
        <Button kind="primary" denied={denied} disabled={edited === null || edited === stored} onClick={() => void guarded(async () => setResult(await put(true)))}>
          {t().review}
        </Button>
        <Button disabled={edited === null} onClick={() => void guarded(load)}>
          {t().reload}
        </Button>
        <Button kind="quiet" onClick={() => copyText(edited ?? stored)}>
          {t().copy}
        </Button>
      </div>
      {problem && <Problem text={problem} />}
      <Editor tenant={tenant} label={t().yaml} value={edited ?? stored} problems={marked} isReadOnly={!!denied} onChange={setEdited} />
      {result !== null && (
        <Dialog title={t().reviewTitle} wide onClose={() => setResult(null)}>
          <p>{unversioned(result) === unversioned(stored) ? t().noChange : t().reviewLead}</p>
          <DiffView before={unversioned(stored)} after={unversioned(result)} />
          <footer>
            <Button onClick={() => setResult(null)}>{t().cancel}</Button>
            <Button
              kind="primary"
              onClick={() =>
                void guarded(async () => {
                  setStored(await put(false));
                  setEdited(null);
                  setResult(null);
                  toast(t().applied);
                })
              }
            >
              {t().applyNow}
            </Button>
          </footer>
        </Dialog>
      )}
    </div>
  );
}
