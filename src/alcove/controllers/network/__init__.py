"""Networks: the adapter between tenants' networks and pods and the VPC provider's objects.

    Network ──▶ the provider's objects    networks.py, `network/providers`
    Pod     ──▶ Endpoints                 pods.py
    Node    ──▶ Droplet                   droplets.py

`provider.py` runs the reconcilers of the VPC provider (`vpc/`), which does not know tenants or pods.
"""
