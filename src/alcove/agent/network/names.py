"""A network's zone, fed as services, slices and addresses change: the very next question sees it."""

from alcove.agent.network.fabric import Backing
from alcove.agent.network.holdings import Holdings
from alcove.agent.network.tenant import Tenant
from alcove.api.kinds.core.networks import network_of
from alcove.client.changes import Change, Kind
from alcove.dns import objects as read
from alcove.dns.model import NetworkId, ObjectId, Pod
from alcove.dns.zone import Zone
from alcove.network.owners import OwnerRef


class Names:
    def __init__(self, tenant: Tenant, backing: Backing, domain: str) -> None:
        owner = backing.owner
        self.zone = Zone(NetworkId(owner.tenant, owner.name), backing.prefixes, domain)
        self._network = owner.name
        for obj in tenant.all(tenant.services):
            self.put_service(Change(Kind.ADDED, tenant.key_of(obj), obj))
        for obj in tenant.all(tenant.slices):
            self.put_slice(Change(Kind.ADDED, tenant.key_of(obj), obj))

    def put_service(self, change: Change) -> None:
        service = read.service_of(change.obj) if change.kind is not Kind.DELETED else None
        if service is None or network_of(change.obj) != self._network:
            self.zone.drop_service(ObjectId(change.key.namespace, change.key.name))
        else:
            self.zone.put_service(service)

    def put_slice(self, change: Change) -> None:
        part = read.slice_of(change.obj) if change.kind is not Kind.DELETED else None
        if part is None:
            self.zone.drop_slice(ObjectId(change.key.namespace, change.key.name))
        else:
            self.zone.put_slice(part)

    def put_pod(self, pod: OwnerRef, holdings: Holdings, uid: str) -> None:
        addresses = tuple(each.address for each in holdings.of(uid) if each.address is not None)
        id_ = ObjectId(pod.namespace, pod.name)
        if addresses:
            self.zone.put_pod(Pod(id_, addresses))
        else:
            self.zone.drop_pod(id_)
