"""Admission webhooks: a tenant's servers that may change or reject its writes.

    hooks           a tenant's configurations, compiled, and which of them match a write
    review_objects  the objects that a webhook is sent for a write
    review          encodes and decodes the AdmissionReview
    caller          calls one webhook for one write, and handles its failure
    mutating        the plugin that calls mutating webhooks, one after the other
    validating      the plugin that calls validating webhooks, concurrently

A tenant's webhooks are called for all writes in that tenant and for no other tenant's; ring0's only for
ring0. There are two exceptions, so that the system stays repairable: webhooks are never called for
configurations of webhooks and policies, nor for ring0's writes in a terminating tenant, or a tenant could
block its deletion. `apiserver/outbound` decides which addresses may be called.
"""
