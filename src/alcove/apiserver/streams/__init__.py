"""Streams of pods (log, exec, attach, portforward, proxy): from the client through this server to the pod's node.

options     what a request asks for, and the container it means
places      where a node is: from ring0's Node, never from anything a tenant writes
agents      requests to a node's agent, over mutual TLS
relays      bytes both ways, or an answer's body, with what either side can take
counting    how many streams a tenant may have
proxynames  which pod and port a proxied request means
proxyheaders  what of its headers, and of its answer's, goes on
proxy       HTTP over a tunnel to that port
connect     the handler: checks, admission, and the way to the node
"""
