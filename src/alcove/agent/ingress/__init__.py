"""Ingress: the world's HTTP, led by host and path to services of the tenant that has the host.

    client ──▶ server ── table: host, path ──▶ exchange ──▶ upstream: dialled from the network's gateway
                  └── certificates: by SNI, of the tenant's own secrets

table         where a request leads (pure)
headers       what is said to the other side (pure)
limits        of everything
serving       the thin shell: API objects become the table and the certificates
doorsteps     the node's own programs reach its node ports, too
"""
