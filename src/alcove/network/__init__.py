"""Networks: what controllers and agents have in common. Built on `vpc/`, `client/` and `api/`.

owners             which network, pod or service an object of ring0 was created for
provider_networks  the VPC, VNI and subnets of a network
nics               the addresses that a pod requests
service_ranges     the ranges that a network's services get addresses from
wellknown          the two services of every network: its DNS and the tenant's API server
endpoints          ring0's endpoints as values: which address is allocated to which owner
fabric             the provider's objects that a node watches
policy             NetworkPolicies compiled to rules of addresses and ports
portnames          names of a pod's ports, stored on its endpoints
ingress/           parsed Ingresses, and which tenant holds which host name
providers/         one file per type of network, and the list of them
"""
