"""The schemas of sight.alcove.io: what the API server fetches from nodes or computes, and never stores."""

from typing import Any

from alcove.api.schema.usage import AMOUNTS

PACKAGE = "io.alcove.sight.v1alpha1"

_META = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1"


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _count(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int64", "description": description}


def _end(description: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{PACKAGE}.FlowEnd", "description": description}


DEFINITIONS: dict[str, dict[str, Any]] = {
    f"{PACKAGE}.FlowEnd": {
        "type": "object",
        "description": "One end of a flow.",
        "properties": {
            "address": _text("IP address."),
            "port": _count("Port; 0 if it has none."),
            "kind": _text("Pod, Service or Gateway; absent for addresses outside the network."),
            "namespace": _text("Namespace of the pod or service."),
            "name": _text("Name of the pod or service that has the address now."),
        },
    },
    f"{PACKAGE}.FlowPolicy": {
        "type": "object",
        "description": "The part of one NetworkPolicy in the verdict.",
        "properties": {
            "direction": _text("ingress or egress."),
            "policy": _text("Namespace and name of the NetworkPolicy."),
            "allows": {"type": "boolean", "description": "Whether the policy allows the flow."},
        },
        "required": ["direction", "policy", "allows"],
    },
    f"{PACKAGE}.Flow": {
        "type": "object",
        "description": "A connection, or packets that were dropped, as one node has seen it.",
        "properties": {
            "apiVersion": _text("Version of the schema this object is written in."),
            "kind": _text("Kind of this object."),
            "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "Namespace of the pod, and tenant."},
            "node": _text("The node that has seen it."),
            "network": _text("The tenant's network."),
            "direction": _text("As the node sees it: egress, ingress, or local if both ends are on it."),
            "verdict": _text("forwarded or dropped."),
            "protocol": _text("TCP, UDP, SCTP, ICMP, ICMPv6 or the number of another."),
            "source": _end("The end that opened the connection."),
            "destination": _end("The other end."),
            "service": _end("What the source connected to, if the node translated it to the destination."),
            "start": {"$ref": f"{_META}.Time", "description": "Time of the first packet."},
            "end": {"$ref": f"{_META}.Time", "description": "Time of the last packet so far."},
            "bytesSent": _count("Bytes that the source sent."),
            "bytesReceived": _count("Bytes that the source received."),
            "packetsSent": _count("Packets that the source sent."),
            "packetsReceived": _count("Packets that the source received."),
            "tcpFlags": _text("All TCP flags that were seen, in tcpdump's letters."),
            "reason": _text("Why it was dropped, in one word."),
            "message": _text("Why it was dropped."),
            "policies": {
                "type": "array",
                "items": {"$ref": f"#/$defs/{PACKAGE}.FlowPolicy"},
                "x-kubernetes-list-type": "atomic",
                "description": "The NetworkPolicies that decided.",
            },
            "lost": _count(
                "In a watch: how many flows of this node are left out before this one: the reader is too slow."
            ),
        },
        "required": ["node", "network", "verdict", "protocol", "source", "destination"],
        "x-kubernetes-group-version-kind": [
            {"group": "sight.alcove.io", "kind": "Flow", "version": "v1alpha1"}
        ],
    },
    f"{PACKAGE}.CaptureSpec": {
        "type": "object",
        "description": "Which packets are captured.",
        "properties": {
            "pod": _text("Name of the pod whose packets are captured, at its first interface."),
            "seconds": _count("For how long; 60 unless given."),
            "bytes": _count("How many bytes of the file; 16 MiB unless given."),
            "packetBytes": _count("How much of each packet; 65535 unless given."),
            "filter": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "atomic",
                "description": "Instructions of a classic BPF program, as printed by tcpdump -ddd without its first line.",
            },
        },
        "required": ["pod"],
    },
    f"{PACKAGE}.Capture": {
        "type": "object",
        "description": "Packets of a pod as it sees them. The response is not an object, but a file in the format pcapng.",
        "properties": {
            "apiVersion": _text("Version of the schema this object is written in."),
            "kind": _text("Kind of this object."),
            "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "Namespace of the pod."},
            "spec": {"$ref": f"#/$defs/{PACKAGE}.CaptureSpec", "description": "The packets."},
        },
        "required": ["spec"],
        "x-kubernetes-group-version-kind": [
            {"group": "sight.alcove.io", "kind": "Capture", "version": "v1alpha1"}
        ],
    },
    f"{PACKAGE}.TenantUsage": {
        "type": "object",
        "description": "What a tenant has used in a time, of all nodes and API servers.",
        "properties": {
            "apiVersion": _text("Version of the schema this object is written in."),
            "kind": _text("Kind of this object."),
            "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "The tenant."},
            "start": {"$ref": f"{_META}.Time", "description": "Beginning of the time."},
            "end": {"$ref": f"{_META}.Time", "description": "End of the time; it may not be over yet."},
            "amounts": {"$ref": AMOUNTS, "description": "What was used."},
        },
        "required": ["start", "end"],
        "x-kubernetes-group-version-kind": [
            {"group": "sight.alcove.io", "kind": "TenantUsage", "version": "v1alpha1"}
        ],
    },
    f"{PACKAGE}.TraceSpec": {
        "type": "object",
        "description": "The first packet of a connection, which is not sent, unless it is live.",
        "properties": {
            "pod": _text("Name of the pod that would send it."),
            "address": _text("IP address that it is sent to: a pod's, a service's or another."),
            "name": _text(
                "A name that the pod's DNS server is asked for, by the pod's search list; without an address, nothing else is tried."
            ),
            "port": _count("Port that it is sent to."),
            "protocol": _text("TCP (default), UDP or SCTP."),
            "live": {
                "type": "boolean",
                "description": "Whether a real packet is sent as well (TCP and UDP), as if the pod had sent it.",
            },
        },
        "required": ["pod"],
    },
    f"{PACKAGE}.NameLookup": {
        "type": "object",
        "description": "What the DNS server of the pod's network says on the pod's node.",
        "properties": {
            "name": _text("The full name that was found, or the one that was not."),
            "addresses": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "atomic",
                "description": "Its addresses.",
            },
            "message": _text("Why it has none."),
            "server": _text("Address of the DNS server, as pods know it."),
            "denied": _text(
                "Why the kernel drops the pod's packets to the DNS server; absent if it does not."
            ),
            "failure": _text("Why the server could not be asked."),
        },
        "required": ["name"],
    },
    f"{PACKAGE}.LiveReply": {
        "type": "object",
        "description": "What came back for the real packet.",
        "properties": {
            "sourcePort": _count("Port that it was sent from, by which its flow is found."),
            "reply": _text(
                "accepted or refused (TCP), answered (UDP), unreachable (an ICMP error); absent if nothing came back."
            ),
            "milliseconds": {
                "type": "number",
                "format": "double",
                "description": "Time until the reply.",
            },
        },
    },
    f"{PACKAGE}.NodeTrace": {
        "type": "object",
        "description": "What the kernel of the destination's node does with the packet.",
        "properties": {
            "node": _text("The destination's node."),
            "verdict": _text("forwarded or dropped; absent if it could not be tried."),
            "destination": _end("Where the packet goes."),
            "nextNode": _text("The node that it is passed on to; absent if it stays on this one."),
            "reason": _text("Why it was dropped, in one word."),
            "message": _text("Why it was dropped, or could not be tried."),
            "policies": {
                "type": "array",
                "items": {"$ref": f"#/$defs/{PACKAGE}.FlowPolicy"},
                "x-kubernetes-list-type": "atomic",
                "description": "The NetworkPolicies that decided.",
            },
        },
        "required": ["node"],
    },
    f"{PACKAGE}.TraceStatus": {
        "type": "object",
        "description": "What the kernel of the pod's node does with the packet.",
        "properties": {
            "node": _text("The pod's node."),
            "receiver": {
                "$ref": f"#/$defs/{PACKAGE}.NodeTrace",
                "description": "What the kernel of the destination's node does with it, if that is another one.",
            },
            "live": {"$ref": f"#/$defs/{PACKAGE}.LiveReply", "description": "If a real packet was sent."},
            "lookup": {"$ref": f"#/$defs/{PACKAGE}.NameLookup", "description": "If a name was asked for."},
            "verdict": _text("forwarded or dropped."),
            "destination": _end("Where the packet goes, after translation."),
            "nextNode": _text(
                "The node that it is sent to; absent if it stays on the pod's node or leaves the network."
            ),
            "reason": _text("Why it was dropped, in one word."),
            "message": _text("Why it was dropped."),
            "policies": {
                "type": "array",
                "items": {"$ref": f"#/$defs/{PACKAGE}.FlowPolicy"},
                "x-kubernetes-list-type": "atomic",
                "description": "The NetworkPolicies that decided.",
            },
        },
    },
    f"{PACKAGE}.Trace": {
        "type": "object",
        "description": "Runs the data plane's program on a packet that a pod would send, without sending it.",
        "properties": {
            "apiVersion": _text("Version of the schema this object is written in."),
            "kind": _text("Kind of this object."),
            "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "Namespace of the pod."},
            "spec": {"$ref": f"#/$defs/{PACKAGE}.TraceSpec", "description": "The packet."},
            "status": {"$ref": f"#/$defs/{PACKAGE}.TraceStatus", "description": "The result."},
        },
        "required": ["spec"],
        "x-kubernetes-group-version-kind": [
            {"group": "sight.alcove.io", "kind": "Trace", "version": "v1alpha1"}
        ],
    },
}
