"""The data plane: VPC networks in eBPF. A library that the agent uses through `node_dataplane.DataPlane`.

model       the desired state: plain frozen structs, without Kubernetes
desired     model -> entries of the BPF maps (pure), with `policies` and `services`
apply       writes the difference to the current entries in a safe order, in batches
maps        the Python mirror of the C structs
bpf         map and program calls;  build, loader: the BPF object and its programs
netlink     links, addresses, filters;  namespaces, veths, gateways: built from them
drops       counters and samples of dropped packets, with reasons
"""
