"""Admission webhooks: a tenant's own servers that may change or refuse its writes.

    hooks       a tenant's configurations, compiled; which of them a write concerns
    shown       what a webhook is shown of a write
    review      the AdmissionReview, there and back
    calling     one webhook asked about one write, and what its failure means
    mutating    the plugin that lets them change the object, one after the other
    validating  the plugin that lets them refuse it, all at once

A tenant's webhooks see the writes in that tenant, whoever makes them, and nothing of any other tenant.
Ring0's see ring0's. Two exceptions keep the system mendable: configurations of webhooks and policies
are never shown to webhooks, and what ring0 does in a tenant that is on its way out is not either, or a
tenant could refuse to be deleted. Where a webhook may be is the business of `apiserver/outbound`.
"""
