"""Cluster IPs and node ports of services, allocated in the request that writes the service.

plugin      allocates what a service needs, and releases what it no longer needs
clusterips  chooses and claims cluster IPs, in the service's own tenant
supply      what a network has for its services: ranges of addresses
nodeports   chooses and claims node ports, in ring0
ranges      who may write ServiceCIDRs
repair      claims what was allocated before there were claims
claims      the objects whose creation claims an address or a port
"""
