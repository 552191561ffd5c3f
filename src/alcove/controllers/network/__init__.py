"""Networks: the adapter between tenants' networks and pods and the VPC provider's objects.

    Network ──▶ what its provider makes   networks.py, `network/providers`
    Pod     ──▶ Endpoints                 pods.py
    Node    ──▶ Droplet                   droplets.py

`provider.py` runs the VPC provider's own life cycles (`vpc/`), which know nothing of all this.
"""
