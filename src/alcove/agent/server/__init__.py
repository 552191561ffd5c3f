"""The agent's HTTPS server: logs, exec, attach, port-forward, proxied ports and usage, for the API server
alone.

running_containers  the pods of this node as the server sees them (implemented by the agent)
server              listener, authorization of callers, routing of paths
callers             API servers that may call, identified by their client certificates
requests            one request per connection: path, query and error responses
websocket           a WebSocket on such a connection
spdy                SPDY/3.1: frames without I/O, and a session over any connection
inbox               a bounded buffer of received bytes
pings               pings that detect disconnected clients whose input is not being read
descriptors         non-blocking pipes and terminals
channels            the streams of an exec or attach over WebSocket or SPDY
exec                a process in a container, its streams and its exit code
attach              the streams of a container's main process
forward             port-forward to a pod
tunnel              a raw connection to a port of a pod or of the node, for the API server's proxy
node_api            the paths of the kubelet API that concern the node itself
logs                GET of a container log, with follow
usage               CPU and memory usage of the node and its containers
"""
