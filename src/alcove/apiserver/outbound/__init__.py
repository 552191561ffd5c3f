"""Outbound calls: the API server calls webhooks and aggregated APIs on a tenant's behalf, and nothing else.

    resolver        resolves host names to addresses and services to their endpoints
    dialer          opens a TCP connection to a checked address
    tunnels         opens a connection to a service's endpoint through a node
    webhook_dialer  chooses between the two
    authorities     loads the CA bundles that certificates are verified with
    webhooks        the entry point of webhooks: `Webhooks.call(tenant, clientConfig, body)`; that of aggregated
                    APIs is `aggregation/connections.py`

A tenant chooses a webhook's target. The connection to a URL starts in the API server's network: without checks,
every tenant could reach what only ring0 may (SSRF). So for a tenant, an address must be on the public
internet and not one of the cluster's, unless ring0's configuration allows it (`api/destinations.py`); a name
is resolved once, and the checked address is the one that is connected to; redirects are not followed; and an
error reveals neither what a name resolves to nor whether it does. Ring0's webhooks may have any address.

The connection to a service starts in the service's own network, on a node that has it: it reaches what the
tenant's pods reach.
"""
