"""The data plane: VPC networks in eBPF. A library; the node agent drives it through `plane.Plane`.

model     what the agent asks for: plain frozen structs, no Kubernetes
desired   model -> entries of the kernel's maps (pure), with `policies` and `services` beside it
apply     the difference to what the kernel holds, written in a safe order, in batches
maps      the one mirror of the C structs
bpf       map and program calls;  build, loader: the object and its programs
netlink   links, addresses, filters;  namespaces, ports, gateways: what they are made into
drops     what was dropped, and why
"""
