"""Quotas: limit the resources of a namespace or a whole tenant.

    usage      the usage of one object (`pods` and `claims` are the large cases)
    account    a quota with its usage, and how a write changes the usage
    count      the total usage of all existing objects
    plugin     charges every write in its own transaction

At every revision of the store, a quota's `status.used` is the usage of its namespace at that revision. A
write and the change of the usage are one transaction, which requires the quota's revision to be unchanged; so
any number of API servers can charge one quota, and a crash leaves no charge without an object. Deletions
release usage in the same way.
"""
