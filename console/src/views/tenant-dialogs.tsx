// Making and deleting tenants.
import { useEffect, useState } from "preact/hooks";
import { call, json, message } from "../api/http";
import { NAMESPACES, NETWORKS, PODS, SERVICES, SYSTEM, TENANTS, collection, one, plural } from "../api/paths";
import { countOf, patchTenant } from "../api/tenants";
import type { KubeObject } from "../api/types";
import { Button, Dialog, Problem, toast } from "../parts/basics";
import { visible } from "../parts/show";
import { t } from "../text";
import { specOf } from "./tenant-columns";

const CLAIMS = { ...PODS, resource: "persistentvolumeclaims", kind: "PersistentVolumeClaim" };
const SECRETS = { ...PODS, resource: "secrets", kind: "Secret" };
const CONFIG_MAPS = { ...PODS, resource: "configmaps", kind: "ConfigMap" };
const DEPLOYMENTS = { ...PODS, group: "apps", resource: "deployments", kind: "Deployment" };
const STATEFUL_SETS = { ...PODS, group: "apps", resource: "statefulsets", kind: "StatefulSet" };
/** What is counted before a tenant is deleted; all the rest goes too. */
const COUNTED = [NAMESPACES, PODS, DEPLOYMENTS, STATEFUL_SETS, SERVICES, NETWORKS, CLAIMS, CONFIG_MAPS, SECRETS];

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

/** To an API server of its own, or back to the shared one. */
export function MoveTenant({ tenant, onClose }: { tenant: KubeObject; onClose: () => void }) {
  const name = tenant.metadata.name;
  const isDedicated = specOf(tenant).controlPlane?.mode === "Dedicated";
  const [problem, setProblem] = useState("");
  const move = async () => {
    try {
      await patchTenant(name, { spec: { controlPlane: { mode: isDedicated ? "Shared" : "Dedicated" } } });
      toast(t().moving(name));
      onClose();
    } catch (error) {
      setProblem(message(error));
    }
  };
  return (
    <Dialog title={`${t().move}: ${visible(name)}`} onClose={onClose}>
      <p>{isDedicated ? t().moveToShared : t().moveToDedicated}</p>
      <p>{t().moveLead}</p>
      {problem && <Problem text={problem} />}
      <footer>
        <Button onClick={onClose}>{t().cancel}</Button>
        <Button kind="primary" onClick={() => void move()}>
          {t().move}
        </Button>
      </footer>
    </Dialog>
  );
}

export function DeleteTenant({ tenant, onClose }: { tenant: KubeObject; onClose: () => void }) {
  const name = tenant.metadata.name;
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState("");
  const [counts, setCounts] = useState<number[]>([]);
  useEffect(() => {
    void Promise.all(COUNTED.map((kind) => countOf(collection(name, kind))))
      .then(setCounts)
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
      <p>{t().willGo}</p>
      <ul class="will-go" aria-live="polite">
        {COUNTED.map((kind, at) => counts[at] !== undefined && counts[at]! > 0 && <li key={kind.resource}>{`${counts[at]} ${plural(kind)}`}</li>)}
      </ul>
      <p>{t().willGoLead}</p>
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
