"""How every process except the API server accesses the API: requests, watches, and local mirrors of
resources.

    kubeconfig → pool (a `Transport`) → Client ─┬─ requests of controllers, scheduler, agents
                                                └─ Informer (one per plane and resource) → Mirror

`Planes` runs the informers: they start and stop as API servers join and leave.
"""
