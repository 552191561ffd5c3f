"""Networks, as controllers and agents share them. Everything here stands on `vpc/`, `client/` and `api/`.

owners          which network, pod or service an object of ring0 was made for
backings        the VPC, number and subnets that a network has
nics            the addresses that a pod asks for
service_ranges  the ranges that a network's services get addresses from
wellknown       the two services of every network: its DNS and the tenant's API server
endpoints       ring0's endpoints as values: which address is held for whom
fabric          the objects that networks are made of, as a node watches them
policy          NetworkPolicies compiled to rules of addresses and ports
portnames       names of a pod's ports, kept on its endpoints
ingress/        Ingresses as this system reads them, and which tenant has which host name
providers/      what each type of network is made of: one file per type, and the list of them
"""
