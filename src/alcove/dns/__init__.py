"""DNS for pods: one server per node, a zone and sockets of its own for every network.

    objects ──▶ model ──▶ records ──▶ zone ──┐
                                             ├──▶ answers ──▶ network ──▶ server (UDP, TCP)
    upstream ──▶ cache ──▶ outside ──────────┘

A network's names are what is in that network, nothing else; the socket a question came in by tells the
network.
"""
