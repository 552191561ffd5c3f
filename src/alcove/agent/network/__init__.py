"""Networks on a node: what drives the data plane there.

fabric, grants, ports, services, policies    objects read into the data plane's values (pure)
ring0, tenant, holdings                      what is watched of ring0 and of tenants
view (servicetable, rules, names)            one network as this node sees it
sight, assembly                              all of them, and the world that the data plane is given
servers, proxy                               DNS and the way to the API server, in each gateway
records, kernel, network                     pods attached and detached; the loop that carries it all out
"""

from alcove.agent.network.attachment import Attachment, NetworkError, NetworkNotReady
from alcove.agent.network.node_network import NodeNetwork, NodeNetworkConfig

__all__ = ["Attachment", "NetworkError", "NetworkNotReady", "NodeNetwork", "NodeNetworkConfig"]
