"""The way out: how the API server calls webhooks on a tenant's behalf, and nothing else.

    addresses  where a tenant's webhooks may be: never on this side of the wall
    names      host names and services, resolved to addresses
    dialing    a TCP connection to an address that was checked
    webhooks   the door: `Webhooks.call(tenant, clientConfig, body)`

A webhook's target is chosen by a tenant, the connection is made from the API server's place in the
network: without care, every tenant could reach what only ring0 may. So for a tenant, an address must be
on the public internet and not one of the cluster's own, unless ring0's configuration allows it; a name
is resolved once, and it is the checked address that is connected to; redirects are not followed; and a
refusal tells neither what a name resolves to nor whether it does. Ring0's own webhooks go anywhere.
"""
