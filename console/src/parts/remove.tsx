// Asks before an object is deleted.
import { useState } from "preact/hooks";
import { call, message } from "../api/http";
import { one } from "../api/paths";
import type { Kind, Meta } from "../api/types";
import { t } from "../text";
import { Button, Dialog, Problem, toast } from "./basics";
import { visible } from "./show";

export function RemoveDialog(props: { tenant: string; kind: Kind; meta: Meta; onClose: () => void; onDone?: () => void }) {
  const { tenant, kind, meta } = props;
  const [problem, setProblem] = useState("");
  const what = `${kind.kind} ${visible(meta.namespace ? `${meta.namespace}/${meta.name}` : meta.name)}`;
  const remove = async () => {
    try {
      const options = { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background", ...(meta.uid ? { preconditions: { uid: meta.uid } } : {}) };
      await call("DELETE", one(tenant, kind, meta.namespace ?? "", meta.name), { body: JSON.stringify(options) });
      toast(t().removed(what));
      props.onClose();
      props.onDone?.();
    } catch (error) {
      setProblem(message(error));
    }
  };
  return (
    <Dialog title={t().removeTitle(what)} onClose={props.onClose}>
      <p>{t().removeLead}</p>
      {problem && <Problem text={problem} />}
      <footer>
        <Button onClick={props.onClose}>{t().cancel}</Button>
        <Button kind="danger" onClick={() => void remove()}>
          {t().remove}
        </Button>
      </footer>
    </Dialog>
  );
}
