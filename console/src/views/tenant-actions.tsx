// What ring0 can do with a tenant: in the table of tenants, and on a tenant's page.
import { useState } from "preact/hooks";
import type { Access } from "../api/access";
import { kubeconfig, save } from "../api/credentials";
import { message } from "../api/http";
import { SYSTEM, TENANTS } from "../api/paths";
import { setAsleep } from "../api/tenants";
import type { KubeObject } from "../api/types";
import { Button, Dialog, toast } from "../parts/basics";
import { visible } from "../parts/show";
import { server } from "../state/session";
import { t } from "../text";
import { BackupDialog } from "./tenant-backup";
import { isAsleep } from "./tenant-columns";
import { DeleteTenant, MoveTenant } from "./tenant-dialogs";

type Asked = "menu" | "move" | "backup" | "delete" | "";

interface Props {
  tenant: KubeObject;
  rights: Access;
  /** In a row of a table there is room for one; the others are in a menu. */
  isRow?: boolean;
}

export function TenantActions({ tenant, rights, isRow }: Props) {
  const [asked, setAsked] = useState<Asked>("");
  const name = tenant.metadata.name;
  if (name === SYSTEM) return null;
  const close = () => setAsked("");
  return (
    <span class="actions">
      <Button kind={isRow ? "plain" : "quiet"} denied={denied(rights, "patch", name)} onClick={() => tried(makeKubeconfig(name), t().kubeconfigMade(name))}>
        {t().kubeconfig}
      </Button>
      {isRow ? (
        <Button kind="plain" label={`${t().actions}: ${name}`} onClick={() => setAsked("menu")}>
          ⋯
        </Button>
      ) : (
        <Rest tenant={tenant} rights={rights} ask={setAsked} />
      )}
      {asked === "menu" && (
        <Dialog title={visible(name)} onClose={close}>
          <div class="menu">
            <Rest tenant={tenant} rights={rights} ask={setAsked} />
          </div>
        </Dialog>
      )}
      {asked === "move" && <MoveTenant tenant={tenant} onClose={close} />}
      {asked === "backup" && <BackupDialog tenant={tenant} denied={denied(rights, "patch", name)} onClose={close} />}
      {asked === "delete" && <DeleteTenant tenant={tenant} onClose={close} />}
    </span>
  );
}

function Rest({ tenant, rights, ask }: { tenant: KubeObject; rights: Access; ask: (what: Asked) => void }) {
  const name = tenant.metadata.name;
  const asleep = isAsleep(tenant);
  const turn = () => {
    ask("");
    tried(setAsleep(name, !asleep), asleep ? t().waking(name) : t().fallingAsleep(name));
  };
  return (
    <>
      <Button kind="quiet" denied={denied(rights, "patch", name)} onClick={turn}>
        {asleep ? t().wake : t().sleep}
      </Button>
      <Button kind="quiet" denied={denied(rights, "patch", name)} onClick={() => ask("move")}>
        {t().move}
      </Button>
      <Button kind="quiet" onClick={() => ask("backup")}>
        {t().backup}
      </Button>
      <Button kind="quiet" denied={denied(rights, "delete", name)} onClick={() => ask("delete")}>
        {t().remove}
      </Button>
    </>
  );
}

function denied(rights: Access, verb: string, name: string): string | undefined {
  return rights.may(verb, TENANTS, name) ? undefined : t().mayNot(verb, "tenants");
}

function tried(action: Promise<unknown>, done: string): void {
  void action.then(() => toast(done)).catch((error: unknown) => toast(message(error), "bad"));
}

async function makeKubeconfig(name: string): Promise<void> {
  save(`${name}.kubeconfig`, await kubeconfig(name, server.value.server ?? location.origin));
}
