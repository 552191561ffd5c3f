// The objects that an object belongs to, and those that belong to it, as a tree.
import { useEffect, useState } from "preact/hooks";
import type { Access } from "../api/access";
import { message } from "../api/http";
import { kindKey } from "../api/paths";
import { dependentsOf, ownersOf, type Related } from "../api/relations";
import type { Kind, KubeObject } from "../api/types";
import { Badge, Problem } from "../parts/basics";
import { age, visible } from "../parts/show";
import { objectLink } from "../state/route";
import { kinds } from "../state/tenant";
import { t } from "../text";
import { statusOf } from "./summary";

const SETTLE_MS = 1_000;
const SHOWN_MAX = 100;

interface Props {
  tenant: string;
  kind: Kind;
  object: KubeObject;
  rights: Access;
}

export function RelatedTab({ tenant, kind, object, rights }: Props) {
  const [found, setFound] = useState<{ owners: Related[]; dependents: Related[] } | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isShown = true;
    const ask = () =>
      Promise.all([ownersOf(tenant, kinds.value, object), dependentsOf(tenant, kinds.value, rights, object)])
        .then(([owners, dependents]) => isShown && setFound({ owners, dependents }))
        .catch((error: unknown) => isShown && setProblem(message(error)));
    // Looks again when the object changes, as it does when what it owns does; not for every one of many changes.
    const timer = setTimeout(() => void ask(), found ? SETTLE_MS : 0);
    return () => {
      isShown = false;
      clearTimeout(timer);
    };
  }, [object.metadata.resourceVersion, rights]);
  if (problem) return <Problem text={problem} />;
  if (!found) return <p class="empty">{t().loading}</p>;
  const self: Related = { kind, meta: object.metadata, state: statusOf(object), dependents: found.dependents };
  const tree = found.owners.reduce((below, owner) => ({ ...owner, dependents: [below] }), self);
  return (
    <div class="scroll">
      <section class="card">
        <ul class="tree" aria-label={t().related}>
          <Branch tenant={tenant} of={tree} self={object.metadata.uid} />
        </ul>
        {!found.owners.length && !found.dependents.length && <p class="fine">{t().noRelated}</p>}
      </section>
    </div>
  );
}

function Branch({ tenant, of, self }: { tenant: string; of: Related; self: string | undefined }) {
  const { meta, kind } = of;
  const isSelf = meta.uid === self;
  const left = of.dependents.length - SHOWN_MAX;
  return (
    <li>
      <span class={isSelf ? "leaf self" : "leaf"}>
        <span class="fine">{visible(kind.kind)}</span>{" "}
        {isSelf ? <b aria-current="true">{visible(meta.name)}</b> : <a href={objectLink(tenant, kindKey(kind), meta.namespace, meta.name)}>{visible(meta.name)}</a>} <Badge text={visible(of.state)} />{" "}
        <span class="fine">{age(meta.creationTimestamp)}</span>
      </span>
      {of.dependents.length > 0 && (
        <ul>
          {of.dependents.slice(0, SHOWN_MAX).map((each) => (
            <Branch key={each.meta.uid} tenant={tenant} of={each} self={self} />
          ))}
          {left > 0 && <li class="fine">{t().andMore(left)}</li>}
        </ul>
      )}
    </li>
  );
}
