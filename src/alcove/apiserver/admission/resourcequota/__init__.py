"""Quotas: how much a namespace, or a whole tenant, may hold.

    usage      what one object uses (`pods` and `claims` are the large cases)
    account    a quota with what is used of it, and what a write makes of that
    count      what everything that is there uses together
    plugin     charges every write in its own transaction

The promise: at every revision of the store, a quota's `status.used` is what its namespace holds at
that revision. A write and the change of the usage are one transaction, which the quota's revision
guards; so any number of API servers can charge one quota, and a crash leaves nothing charged for
nothing. Deletions release in the same way.
"""
