"""Ingress: routes external HTTP by host and path to services of the tenant that owns the host.

    client ──▶ server ── routing_table: host, path ──▶ exchange ──▶ upstream: dialled from the network's gateway
                  └── certificates: by SNI, from the tenant's secrets

routing_table     the backend of a request (pure)
certificate_plan  the secrets that certificates are read from (pure)
targets           the addresses of backends (pure)
headers           heads of forwarded requests and responses (pure)
limits            all limits
reconciler        builds the routing table and the certificates from API objects
local_node_ports  node ports and host ports for processes on the node itself: TCP
local_datagrams   the same for UDP
"""
