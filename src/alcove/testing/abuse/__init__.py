"""A tenant that abuses a cluster, in a process of its own."""
