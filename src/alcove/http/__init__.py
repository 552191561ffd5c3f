"""HTTP/1.1, the server's and the client's side. The only package that uses httptools.

    limits            how large and how slow a message or a connection may be
    errors            what can be wrong with a message or a connection
    messages          HttpHead, HttpRequest, HttpResponse and what their bodies may be; no I/O
    parsing           HttpParser: bytes to messages, strict about everything that two parsers could read differently
    writing           messages to bytes

    server            HttpServer: listens, holds the connections, closes those that idle or dawdle
    serverconnection  HttpServerConnection: one client's connection, answered within `data_received` where possible
    requests          RequestReceiver: requests put together of what the parser finds
    upload            RequestUpload: a request's body that is read while the request is being handled

    client            HttpClientConnection: one connection to a server, one exchange at a time
    pool              IdleConnections: connections that wait for their next use
    closing           how a connection to a peer that no longer reads is ended

    streams           HttpStream: either side over asyncio's streams, for relays and one-request connections

The package knows neither Kubernetes nor this project's errors: whoever uses it translates at its own boundary.
"""
