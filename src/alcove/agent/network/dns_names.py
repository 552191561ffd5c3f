"""A network's DNS zone, updated as services, EndpointSlices and addresses change: the next query sees the
change."""

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.api.kinds.core.networks import network_of
from alcove.client.changes import ChangeType, ObjectChange
from alcove.dns import objects as read
from alcove.dns.model import DnsPod, NetworkId, ObjectId
from alcove.dns.zone import DnsZone
from alcove.network.owners import OwnerRef


class DnsNames:
    def __init__(self, tenant: TenantNetworkView, backing: NetworkBacking, domain: str) -> None:
        owner = backing.owner
        self.zone = DnsZone(NetworkId(owner.tenant, owner.name), backing.prefixes, domain)
        self._network = owner.name
        for obj in tenant.all(tenant.services):
            self.put_service(ObjectChange(ChangeType.ADDED, tenant.key_of(obj), obj))
        for obj in tenant.all(tenant.slices):
            self.put_slice(ObjectChange(ChangeType.ADDED, tenant.key_of(obj), obj))

    def put_service(self, change: ObjectChange) -> None:
        service = read.service_of(change.obj) if change.kind is not ChangeType.DELETED else None
        if service is None or network_of(change.obj) != self._network:
            self.zone.drop_service(ObjectId(change.key.namespace, change.key.name))
        else:
            self.zone.put_service(service)

    def put_slice(self, change: ObjectChange) -> None:
        endpoint_slice = read.slice_of(change.obj) if change.kind is not ChangeType.DELETED else None
        if endpoint_slice is None:
            self.zone.drop_slice(ObjectId(change.key.namespace, change.key.name))
        else:
            self.zone.put_slice(endpoint_slice)

    def put_pod(self, pod: OwnerRef, allocations: EndpointIndex, uid: str) -> None:
        addresses = tuple(each.address for each in allocations.for_owner(uid) if each.address is not None)
        id_ = ObjectId(pod.namespace, pod.name)
        if addresses:
            self.zone.put_pod(DnsPod(id_, addresses))
        else:
            self.zone.drop_pod(id_)
