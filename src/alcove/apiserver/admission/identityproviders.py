"""Identity providers: who may write them, how many there are, and whether their expressions compile.

The users of a provider are what its writer makes them, `admin` too. So its writer needs the right to impersonate all users and
groups of the tenant: nobody grants what they do not hold.
"""

from functools import partial
from itertools import islice

from alcove.api.errors import Forbidden, Invalid
from alcove.api.fields import FieldError
from alcove.api.ids import GroupResource
from alcove.api.kinds.identity import authenticator_of
from alcove.api.resources import IDENTITY_PROVIDERS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.auth.oidc.config_file import own_issuer_errors
from alcove.apiserver.auth.oidc.tenant_providers import PROVIDERS_MAX
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.reader import CacheReader


class IdentityProviders(Plugin):
    def __init__(self, reader: CacheReader, authorizer: Authorizer, threads: ComputeThreads) -> None:
        self._reader = reader
        self._authorizer = authorizer
        self._threads = threads

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and not subresource and resource == IDENTITY_PROVIDERS

    async def validate(self, attributes: Attributes) -> None:
        obj, old = attributes.obj, attributes.old
        if obj is None or (old is not None and obj.get("spec") == old.get("spec")):
            return
        self._check_writer(attributes)
        if old is None:
            self._check_count(attributes)
        authenticator = authenticator_of(obj)
        errors = own_issuer_errors(authenticator, "spec")
        from alcove.apiserver.auth.oidc.claim_rules import compile_rules

        compile_all = partial(compile_rules, authenticator, "spec")
        found: list[FieldError] = (await self._threads.run(attributes.identity.tenant, compile_all))[1]
        if errors := [*errors, *found]:
            raise Invalid.of(IDENTITY_PROVIDERS.group, attributes.kind.kind, attributes.name, errors)

    def _check_writer(self, attributes: Attributes) -> None:
        for resource in ("users", "groups"):
            access = Access("impersonate", attributes.tenant, "", resource)
            if not self._authorizer.authorize(attributes.identity, access).allowed:
                message = (
                    "an identity provider makes any user of the tenant: "
                    'its writer needs the verb "impersonate" on all users and groups'
                )
                raise Forbidden.of(attributes.resource, attributes.name, message)

    def _check_count(self, attributes: Attributes) -> None:
        stored = islice(self._reader.list(attributes.tenant, IDENTITY_PROVIDERS), PROVIDERS_MAX)
        if len(list(stored)) == PROVIDERS_MAX:
            message = f"a tenant can have at most {PROVIDERS_MAX} identityproviders"
            raise Forbidden.of(attributes.resource, attributes.name, message)
