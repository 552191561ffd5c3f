"""Streams of pods (log, exec, attach, portforward, proxy): from the client through this server to the pod's
node.

options          the options in a request's query string, and the container it selects
agent_addresses  a node's address: from ring0's Node, never from an object that a tenant writes
agents           requests to a node's agent, over mutual TLS
relays           copies bytes both ways, or a response's body, with backpressure
proxy_targets    the pod and port that a proxied request selects
proxyheaders     the headers that are forwarded to the backend and back to the client
proxy            HTTP over a tunnel to that port
connect          the handler: limits, checks, admission, and the request to the node's agent
"""
