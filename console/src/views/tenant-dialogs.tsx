// Making and deleting tenants.
import { useEffect, useState } from "preact/hooks";
import { call, json, message } from "../api/http";
import { NAMESPACES, PODS, SYSTEM, TENANTS, collection, one } from "../api/paths";
import type { KubeObject } from "../api/types";
import { Button, Dialog, Problem, toast } from "../parts/basics";
import { visible } from "../parts/show";
import { t } from "../text";
import { countOf } from "./tenants";

const CLAIMS = { ...PODS, resource: "persistentvolumeclaims", kind: "PersistentVolumeClaim" };

export function CreateTenant({ onClose }: { onClose: () => void }) {
  const [problem, setProblem] = useState("");
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const field = (name: string) => String(form.get(name) ?? "").trim();
    const hard = Object.fromEntries(["cpu", "memory", "pods"].map((each) => [each, field(each)]).filter(([, value]) => value));
    const spec: Record<string, unknown> = {};
    if (field("weight")) spec["weight"] = Number(field("weight"));
    if (Object.keys(hard).length) spec["quota"] = { hard };
    if (form.get("dedicated")) spec["controlPlane"] = { mode: "Dedicated" };
    try {
      await json("POST", collection(SYSTEM, TENANTS), { apiVersion: "v1", kind: "Tenant", metadata: { name: field("name") }, spec });
      toast(t().tenantCreated(field("name")));
      onClose();
    } catch (error) {
      setProblem(message(error));
    }
  };
  return (
    <Dialog title={t().createTenant} onClose={onClose}>
      <form onSubmit={(event) => void create(event)}>
        <label class="field">
          {t().name}
          <input name="name" required autofocus autocomplete="off" pattern="[a-z0-9]([a-z0-9-]*[a-z0-9])?" spellcheck={false} />
        </label>
        <label class="field">
          {t().weight} <span class="fine">{t().optional}</span>
          <input name="weight" type="number" min="1" placeholder="1" />
        </label>
        <fieldset>
          <legend>
            {t().quota} <span class="fine">{t().optional}</span>
          </legend>
          <div class="three">
            <input name="cpu" placeholder={`${t().cpu}: 8`} aria-label={t().cpu} />
            <input name="memory" placeholder={`${t().memory}: 16Gi`} aria-label={t().memory} />
            <input name="pods" placeholder={`${t().pods}: 100`} aria-label={t().pods} />
          </div>
        </fieldset>
        <label class="check">
          <input type="checkbox" name="dedicated" /> {t().dedicatedPlane}
        </label>
        {problem && <Problem text={problem} />}
        <footer>
          <Button onClick={onClose}>{t().cancel}</Button>
          <button type="submit" class="primary">
            {t().create}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

export function DeleteTenant({ tenant, onClose }: { tenant: KubeObject; onClose: () => void }) {
  const name = tenant.metadata.name;
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState("");
  const [counts, setCounts] = useState<[number, number, number] | null>(null);
  useEffect(() => {
    void Promise.all([PODS, NAMESPACES, CLAIMS].map((kind) => countOf(collection(name, kind))))
      .then(([pods = 0, namespaces = 0, claims = 0]) => setCounts([pods, namespaces, claims]))
      .catch((error: unknown) => setProblem(message(error)));
  }, [name]);
  const remove = async () => {
    try {
      await call("DELETE", one(SYSTEM, TENANTS, "", name));
      toast(t().removed(`${t().tenant} ${name}`));
      onClose();
    } catch (error) {
      setProblem(message(error));
    }
  };
  return (
    <Dialog title={t().removeTitle(`${t().tenant} ${visible(name)}`)} onClose={onClose}>
      <p>{counts && t().deleteTenantLead(...counts)}</p>
      <label class="field">
        {t().typeName(name)}
        <input value={typed} autofocus autocomplete="off" spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
      {problem && <Problem text={problem} />}
      <footer>
        <Button onClick={onClose}>{t().cancel}</Button>
        <Button kind="danger" disabled={typed !== name} onClick={() => void remove()}>
          {t().remove}
        </Button>
      </footer>
    </Dialog>
  );
}
