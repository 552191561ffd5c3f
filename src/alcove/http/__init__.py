"""HTTP/1.1 servers and clients. The only package that uses httptools.

    limits            how large and how slow a message or a connection may be
    errors            errors of messages and connections
    messages          HttpHead, HttpRequest, HttpResponse and the types of their bodies; no I/O
    parsing           HttpParser: bytes to messages; rejects every ambiguous message
    writing           messages to bytes

    server            HttpServer: listens, holds the connections, closes those that are idle or too slow
    serverconnection  HttpServerConnection: one client's connection
    requests          RequestReceiver: assembles requests from the parser's events
    connections       ConnectionTable: counts connections and their bytes by client address and by tenant
    accepting         Acceptor: accepts connections and computes their TLS handshakes in threads
    turns             Turns, ReadingTurns: share the loop's time between the connections of different groups
    tunnel            Tunnel: a connection after it was upgraded
    carrier           StreamCarrier: many connections as streams of one, at either end
    upload            RequestUpload: a request's body that is read while the request is handled

    client            HttpClientConnection: one connection to a server, one exchange at a time
    pool              IdleConnections: idle connections that can be reused
    closing           closes a connection even if the peer no longer reads

    byte_streams      ByteStream: a connection or tunnel before a protocol takes it over
    handshakes        Handshakes: TLS with servers that are not trusted, computed in threads
    tls_transport     TlsTransport: the TLS layer of a connection whose handshake is complete

    streams           HttpStream: either side over asyncio's streams, for relays and one-request connections

The package knows neither Kubernetes nor the API's errors: its users translate errors at their own boundary.
"""
