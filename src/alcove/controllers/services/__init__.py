"""Services: cluster IPs, node ports and load balancer addresses, allocated per network in ring0."""
