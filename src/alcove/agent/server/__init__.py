"""The node's own HTTPS server: logs, exec, attach, port-forward, proxied ports and usage, for the API server alone.

running     what the server must know of the node's pods (the agent implements it)
server      listening, who may call, which path is what
callers     which API servers may call, by their certificates
http        one request per connection, over asyncio streams
websocket   a WebSocket on such a connection
spdy        SPDY/3.1: frames without I/O, and a session over any connection
inbox       bytes received and not yet wanted, bounded
pings       pings to clients whose input nobody takes, so that those that are gone are noticed
descriptors pipes and terminals, without blocking
channels    the streams of an exec or attach, however they are carried
exec        a process in a container, its streams and its exit code
attach      the streams of a container's own process
forward     ports of a pod
tunnel      a port of a pod or of the node, as bytes, for what the API server proxies
nodeanswers what kubelet's users ask a node itself
logs        GET of a log, also while it grows
usage       CPU and memory of the node and its containers
"""
