"""Aggregated APIs, per tenant: group versions that a tenant's own servers ("extension servers") serve.

An APIService with a `service` registers a group version. Requests for it are authenticated and authorized here
like all others, and proxied to a pod of the service.

registrations    the APIServices of a tenant that have a service, by group version
local_services   the APIServices of the group versions that this server serves itself, shown but not stored
front_proxy      the certificate authority and the client certificate of each tenant's front proxy, and its headers
trust            the config map and role by which extension servers learn to trust the front proxy
connections      connections to extension servers, through the nodes of their pods, which are reused
proxying         the handler: forwards a request, relays its response
documents        discovery and OpenAPI documents of extension servers, fetched with limits and cached
merging          what is added to this server's own documents

A tenant's extension server is hostile to everybody else: every wait, byte and connection is counted for the
tenant, and a server that hangs or lies fails its own tenant's requests for its own group version.
"""
