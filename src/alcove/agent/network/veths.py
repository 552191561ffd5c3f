"""A pod's NICs as veths of the data plane. Pure: no I/O.

A pod's annotations may request an egress bandwidth (`kubernetes.io/egress-bandwidth` or Mizar's name for it,
in bits per second) and a traffic class.
"""

from collections.abc import Iterable

from alcove.api import objects, quantity
from alcove.api.objects import Object
from alcove.api.quantity import QuantityError
from alcove.dataplane.model import TrafficClass, Veth
from alcove.dataplane.veths import port_name
from alcove.network.endpoints import PodNic

BANDWIDTH = ("mizar.com/egress-bandwidth", "kubernetes.io/egress-bandwidth")
CLASS = "mizar.com/network-class"
INTERFACE_LENGTH_MAX = 15

_CLASSES = {
    "premium": TrafficClass.PREMIUM,
    "expedited": TrafficClass.EXPEDITED,
    "besteffort": TrafficClass.BEST_EFFORT,
}


def veths_of(instance: str, uid: str, pod: Object, nics: Iterable[PodNic]) -> tuple[Veth, ...]:
    """One veth for each of the pod's NICs, in order; the first has the default route."""
    ordered = sorted(nics, key=lambda nic: nic.interface)
    return tuple(
        Veth(
            name=port_name(instance, f"{uid}/{nic.interface}"),
            vni=nic.vni,
            mac=nic.mac,
            addresses=(nic.address,),
            gateways=(nic.gateway,) if nic.gateway is not None and nic is ordered[0] else (),
            rate_bytes_per_second=rate_of(pod),
            traffic_class=class_of(pod),
            pod_interface=nic.interface[:INTERFACE_LENGTH_MAX],
        )
        for nic in ordered
    )


def rate_of(pod: Object) -> int:
    """The requested egress bandwidth in bytes per second; 0 for none or an invalid one."""
    annotations = objects.annotations(pod)
    for name in BANDWIDTH:
        if text := annotations.get(name):
            try:
                return max(0, quantity.whole(text)) // 8
            except QuantityError:
                return 0
    return 0


def class_of(pod: Object) -> TrafficClass:
    name = objects.annotations(pod).get(CLASS, "").lower().replace("-", "").replace("_", "")
    return _CLASSES.get(name, TrafficClass.EXPEDITED)
