"""How every process but the API server sees the world: requests, watches, and local mirrors of resources.

    kubeconfig → pool (a `Transport`) → Client ─┬─ requests of controllers, scheduler, agents
                                                └─ Informer (one per plane and resource) → Mirror

`Planes` keeps the informers: they start and stop as API servers join and leave.
"""
