"""Networks on a node: drives the node's data plane.

ring0_objects, services, policies                    API objects converted to the data plane's values (pure)
ring0, tenant_view, endpoint_index                   watched objects of ring0 and of tenants
view (servicetable, policy_rules, dns_names)         one network as this node sees it
tenant_work                                          what takes long of that, beside the event loop
view_set, desired_state                              all networks, and the state that the data plane is given
gateway_servers, apiserver_proxy                     DNS and the proxy to the API server, in each gateway
attachment_records, dataplane_thread, node_network   attaching and detaching pods
reconciler                                           the loop that applies the desired state
"""

from alcove.agent.network.attachment import Attachment, NetworkError, NetworkNotReady
from alcove.agent.network.node_network import NodeNetwork, NodeNetworkConfig

__all__ = ["Attachment", "NetworkError", "NetworkNotReady", "NodeNetwork", "NodeNetworkConfig"]
