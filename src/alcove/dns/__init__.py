"""DNS for pods: one server per node, with a separate zone and separate sockets for every network.

    objects ──▶ model ──▶ records ──▶ zone ──┐
                                             ├──▶ answers ──▶ network_resolver ──▶ server (UDP, TCP)
    cache ──▶ upstream ──────────────────────┘

A zone contains the names of its network only; the network of a query is determined by the socket it was
received on.
"""
