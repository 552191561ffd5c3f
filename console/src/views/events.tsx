// Events: of one object, or of a tenant.
import { ObjectFeed } from "../api/feed";
import { EVENTS, collection, kindKey } from "../api/paths";
import type { KubeObject } from "../api/types";
import { Badge, Problem, useFeed } from "../parts/basics";
import { age, visible } from "../parts/show";
import { objectLink } from "../state/route";
import { kindNamed, tenant } from "../state/tenant";
import { t } from "../text";

export interface EventObject extends KubeObject {
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  lastTimestamp?: string;
  eventTime?: string;
  source?: { component?: string };
  reportingComponent?: string;
  involvedObject?: { apiVersion?: string; kind?: string; namespace?: string; name?: string };
  series?: { count?: number; lastObservedTime?: string };
}

export function eventTime(event: EventObject): string {
  return event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "";
}

/** The newest first. */
export function newest(feed: ObjectFeed<EventObject>): EventObject[] {
  return [...feed.items.values()].sort((a, b) => eventTime(b).localeCompare(eventTime(a)));
}

export function EventsTab({ tenant, object }: { tenant: string; object: KubeObject }) {
  const { namespace = "", uid = "", name } = object.metadata;
  const path = collection(tenant, EVENTS, namespace || "default");
  const selector = `involvedObject.name=${name},involvedObject.uid=${uid}`;
  const feed = useFeed(() => new ObjectFeed<EventObject>(path, { fieldSelector: selector }), `${path}?${selector}`);
  void feed.changes.value;
  const events = newest(feed);
  if (feed.error.value && feed.state.value === "failed") return <Problem text={feed.error.value.message} />;
  return (
    <div class="scroll">
      <EventList events={events} isLoading={feed.state.value === "loading"} />
    </div>
  );
}

export function EventList({ events, isLoading, withObject, withTenant }: { events: EventObject[]; isLoading: boolean; withObject?: boolean; withTenant?: boolean }) {
  if (!events.length) return <p class="empty">{isLoading ? "" : withObject ? t().noWarnings : t().noEvents}</p>;
  return (
    <div class="over">
      <table class="small">
        <thead>
          <tr>
            <th>{t().lastSeen}</th>
            <th>{t().type}</th>
            <th>{t().reason}</th>
            {withTenant && <th>{t().tenant}</th>}
            {withObject && <th>{t().object}</th>}
            <th>{t().message}</th>
            <th>{t().count}</th>
            <th>{t().from}</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.metadata.uid ?? event.metadata.name}>
              <td>{age(eventTime(event))}</td>
              <td>
                <Badge text={visible(event.type)} />
              </td>
              <td>{visible(event.reason)}</td>
              {withTenant && <td>{visible(event.metadata.tenant)}</td>}
              {withObject && (
                <td>
                  <Involved event={event} />
                </td>
              )}
              <td class="long">{visible(event.message)}</td>
              <td class="number">{event.series?.count ?? event.count ?? 1}</td>
              <td>{visible(event.source?.component || event.reportingComponent)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Involved({ event }: { event: EventObject }) {
  const { apiVersion = "v1", kind = "", namespace = "", name = "" } = event.involvedObject ?? {};
  const text = visible(`${kind} ${name}`);
  const known = kindNamed(apiVersion, kind);
  const of = event.metadata.tenant ?? tenant.value;
  return known && name ? <a href={objectLink(of, kindKey(known), known.namespaced ? namespace : "", name)}>{text}</a> : <>{text}</>;
}
