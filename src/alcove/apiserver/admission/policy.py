"""CEL admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, with their bindings.

A tenant's policies apply to that tenant only, and ring0's only to ring0. (Ring0 limits tenants by quotas, pod
security and RBAC.) A tenant without policies costs two lookups per write, and CEL is not loaded.

A policy with expressions that do not compile is rejected when it is written. Policies, bindings and webhook
configurations are themselves never subject to policies, so that a wrong one can always be repaired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import orjson

from alcove.api.errors import ApiError, Details, Forbidden, Invalid, StatusCause, TooLarge, Unauthorized
from alcove.api.fields import FieldError
from alcove.api.ids import GroupResource
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.resources import NAMESPACES
from alcove.apiserver.admission.admission_objects import LOOKED_AT_ONCE
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.completion import complete
from alcove.apiserver.admission.policies.evaluation import CompiledExpressions, evaluated
from alcove.apiserver.admission.policies.hooks import Binding, Hook, PolicyHooks
from alcove.apiserver.admission.policies.matching import Equivalents, ResourceMatch
from alcove.apiserver.admission.policies.named_kinds import named_kinds
from alcove.apiserver.admission.policies.params import Param, ParamsError, collect
from alcove.apiserver.admission.versions import at
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.reader import CacheReader, ServedKinds

if TYPE_CHECKING:
    from alcove.apiserver.admission.policies.mutating import MutatingPolicy
    from alcove.apiserver.admission.policies.validating import (
        ValidatingPolicy,
        ValidationFailure,
        ValidationResult,
    )

GROUP = "admissionregistration.k8s.io"
VALIDATING = GroupResource(GROUP, "validatingadmissionpolicies")
VALIDATING_BINDINGS = GroupResource(GROUP, "validatingadmissionpolicybindings")
MUTATING = GroupResource(GROUP, "mutatingadmissionpolicies")
MUTATING_BINDINGS = GroupResource(GROUP, "mutatingadmissionpolicybindings")

AUDIT_KEY = "validation.policy.admission.k8s.io/validation_failure"
AUDITED_MOST = 50
_REASONS: dict[str, type[ApiError]] = {
    "Forbidden": Forbidden,
    "Invalid": Invalid,
    "RequestEntityTooLarge": TooLarge,
    "Unauthorized": Unauthorized,
}


def _validating(spec: Object) -> ValidatingPolicy:
    from alcove.apiserver.admission.policies.validating import ValidatingPolicy

    return ValidatingPolicy(spec)


def _mutating(spec: Object) -> MutatingPolicy:
    from alcove.apiserver.admission.policies.mutating import MutatingPolicy

    return MutatingPolicy(spec)


class _Plugin(Plugin):
    """Base of both plugins: finds the policies, bindings and parameters that apply to a write."""

    def __init__(
        self,
        reader: CacheReader,
        kinds: ServedKinds,
        authorizer: Authorizer,
        threads: ComputeThreads,
        hooks: PolicyHooks,
    ) -> None:
        self._threads = threads
        self._reader = reader
        self._kinds = kinds
        self._authorizer = authorizer
        self._hooks = hooks
        self._equivalents = Equivalents(kinds)

    def _namespace(self, attributes: Attributes) -> Object | None:
        if not attributes.namespace or attributes.resource == NAMESPACES:
            return None
        return self._reader.get(attributes.tenant, NAMESPACES, "", attributes.namespace)

    def _matched(self, match: ResourceMatch, attributes: Attributes) -> Kind | None:
        return match.find(attributes, self._equivalents, lambda: self._namespace(attributes))

    async def _params(self, hook: Hook, binding: Binding, attributes: Attributes) -> Sequence[Param | None]:
        return await collect(
            self._reader,
            self._kinds,
            self._threads,
            attributes.tenant,
            attributes.namespace,
            hook.spec.get("paramKind"),
            binding.params,
        )

    async def _decoded(self, param: Param | None, attributes: Attributes) -> Object | None:
        if param is None:
            return None
        obj: Object = await self._threads.for_size(attributes.tenant, param.size_bytes, param.object)
        return obj


class ValidatingPolicies(_Plugin):
    def __init__(
        self, reader: CacheReader, kinds: ServedKinds, authorizer: Authorizer, threads: ComputeThreads
    ) -> None:
        super().__init__(
            reader, kinds, authorizer, threads, PolicyHooks(reader, VALIDATING, VALIDATING_BINDINGS)
        )
        self._compiled = CompiledExpressions(threads, _validating)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource.group != GROUP or (
            resource in (VALIDATING, MUTATING) and operation is not Operation.DELETE
        )

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource.group == GROUP:
            await self._check_policy(attributes)
            return
        hooks = self._hooks.of(attributes.tenant)
        if hooks:
            await self._evaluate_all(hooks, attributes)

    async def _check_policy(self, attributes: Attributes) -> None:
        """Raise Invalid if expressions of a new or changed policy do not compile; set the status of its type
        checking."""
        policy, old = attributes.obj, attributes.old
        if policy is None or attributes.subresource:
            return
        spec = policy.get("spec") or {}
        if old is not None and spec == (old.get("spec") or {}):
            return
        is_validating = attributes.resource == VALIDATING
        named = named_kinds(self._kinds, attributes.tenant, spec) if is_validating else None

        def check() -> tuple[list[FieldError], Object | None]:
            from alcove.apiserver.admission.policies.checks import mutating_faults, validating_faults
            from alcove.apiserver.admission.policies.typechecking import status

            if named is None:
                return mutating_faults(spec), None
            return validating_faults(spec), status(named, policy)

        errors, status = await self._threads.run(attributes.tenant, check)
        if errors:
            raise Invalid.of(GROUP, attributes.kind.kind, attributes.name, errors)
        if status is not None:
            policy["status"] = status

    async def _evaluate_all(self, hooks: Sequence[Hook], attributes: Attributes) -> None:
        denied: list[tuple[Hook, Binding | None, ValidationFailure]] = []
        audited: list[Object] = []
        for index, hook in enumerate(hooks, 1):
            await self._evaluate_hook(hook, attributes, denied, audited)
            if not index % LOOKED_AT_ONCE:
                await asyncio.sleep(0)
        if audited:
            attributes.annotations[AUDIT_KEY] = orjson.dumps(audited[:AUDITED_MOST]).decode()
        if denied:
            raise _denial(attributes, *denied[0])

    async def _evaluate_hook(
        self,
        hook: Hook,
        attributes: Attributes,
        denied: list[tuple[Hook, Binding | None, ValidationFailure]],
        audited: list[Object],
    ) -> None:
        from alcove.apiserver.admission.policies.validating import ValidationFailure

        if hook.match is None:
            if not hook.ignores_errors:
                denied.append(
                    (hook, None, ValidationFailure(-1, f"failed to configure policy: {hook.fault}"))
                )
            return
        matched = self._matched(hook.match, attributes)
        if matched is None:
            return
        annotations: dict[str, list[str]] = {}
        for binding in hook.bindings:
            if binding.match is not None and self._matched(binding.match, attributes) is None:
                continue
            try:
                if binding.fault:
                    raise ParamsError(binding.fault)
                params = await self._params(hook, binding, attributes)
            except ParamsError as error:
                if not hook.ignores_errors:
                    denied.append(
                        (hook, binding, ValidationFailure(-1, f"failed to configure binding: {error}"))
                    )
                continue
            for param in params:
                # Let other requests run between two evaluations.
                await asyncio.sleep(0)
                decoded = await self._decoded(param, attributes)
                result = await self._evaluate(hook, matched, attributes, decoded)
                for failure in result.failures:
                    _apply_actions(hook, binding, failure, attributes, denied, audited)
                for key, value in result.annotations.items():
                    annotations.setdefault(key, []).append(value)
                if attributes.cel_budget.is_exhausted:
                    break
        for key, values in annotations.items():
            attributes.annotations[f"{hook.name}/{key}"] = ", ".join(dict.fromkeys(values))

    async def _evaluate(
        self, hook: Hook, matched: Kind, attributes: Attributes, param: Object | None
    ) -> ValidationResult:
        policy = await self._compiled.get(attributes.tenant, hook.spec)
        from alcove.apiserver.admission.policies.variables import activation, asker

        values = activation(
            attributes,
            matched,
            await at(attributes, matched, attributes.obj),
            await at(attributes, matched, attributes.old),
            self._namespace(attributes),
            asker(self._authorizer, attributes),
            has_params=hook.spec.get("paramKind") is not None,
            params=param,
        )
        result: ValidationResult = await evaluated(self._threads, attributes, partial(policy.judge, values))
        return result


def _apply_actions(
    hook: Hook,
    binding: Binding,
    failure: ValidationFailure,
    attributes: Attributes,
    denied: list[tuple[Hook, Binding | None, ValidationFailure]],
    audited: list[Object],
) -> None:
    """Apply the binding's validationActions to a failed validation."""
    for action in binding.actions:
        match action:
            case "Deny":
                denied.append((hook, binding, failure))
            case "Warn":
                attributes.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{hook.name}' with binding "
                    f"'{binding.name}': {failure.message}"
                )
            case "Audit":
                audited.append(
                    {
                        "message": failure.message,
                        "policy": hook.name,
                        "binding": binding.name,
                        "expressionIndex": max(failure.index, 0),
                        "validationActions": list(binding.actions),
                    }
                )


def _denial(
    attributes: Attributes, hook: Hook, binding: Binding | None, failure: ValidationFailure
) -> ApiError:
    bound = f" with binding '{binding.name}'" if binding is not None else ""
    message = f"ValidatingAdmissionPolicy '{hook.name}'{bound} denied request: {failure.message}"
    return _error(attributes, message, failure.reason)


def _error(attributes: Attributes, message: str, reason: str) -> ApiError:
    resource = (attributes.requested or attributes.kind).group_resource
    full_message = Forbidden.of(resource, attributes.name, message).message
    details = Details(
        name=attributes.name, group=resource.group, kind=resource.resource, causes=(StatusCause("", message),)
    )
    return _REASONS.get(reason, Invalid)(full_message, details)


class MutatingPolicies(_Plugin):
    def __init__(
        self, reader: CacheReader, kinds: ServedKinds, authorizer: Authorizer, threads: ComputeThreads
    ) -> None:
        super().__init__(reader, kinds, authorizer, threads, PolicyHooks(reader, MUTATING, MUTATING_BINDINGS))
        self._compiled = CompiledExpressions(threads, _mutating)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource.group != GROUP and operation in (Operation.CREATE, Operation.UPDATE)

    async def admit(self, attributes: Attributes) -> None:
        hooks = self._hooks.of(attributes.tenant)
        if not hooks or attributes.obj is None:
            return
        for index, hook in enumerate(hooks, 1):
            await self._run(hook, attributes)
            if not index % LOOKED_AT_ONCE:
                await asyncio.sleep(0)

    async def _run(self, hook: Hook, attributes: Attributes) -> None:
        policy = await self._compiled.get(attributes.tenant, hook.spec)
        from alcove.apiserver.admission.policies.compiled import EvaluationError

        if attributes.is_reinvoked and not policy.is_reinvoked:
            return
        if hook.match is None:
            self._refuse(hook, None, f"failed to configure policy: {hook.fault}", attributes)
            return
        matched = self._matched(hook.match, attributes)
        if matched is None:
            return
        for binding in hook.bindings:
            if binding.match is not None and self._matched(binding.match, attributes) is None:
                continue
            try:
                if binding.fault:
                    raise ParamsError(binding.fault)
                for param in await self._params(hook, binding, attributes):
                    # Let other requests run between two evaluations.
                    await asyncio.sleep(0)
                    decoded = await self._decoded(param, attributes)
                    await self._change(policy, hook, matched, attributes, decoded)
            except (EvaluationError, ParamsError) as error:
                self._refuse(hook, binding, str(error), attributes)

    def _refuse(self, hook: Hook, binding: Binding | None, message: str, attributes: Attributes) -> None:
        if not hook.ignores_errors:
            bound = f" with binding '{binding.name}'" if binding is not None else ""
            raise _error(attributes, f"policy '{hook.name}'{bound} denied request: {message}", "Invalid")

    async def _change(
        self, policy: MutatingPolicy, hook: Hook, matched: Kind, attributes: Attributes, param: Object | None
    ) -> None:
        """Run the policy on the object at the processed version: changes cannot be converted back."""
        from alcove.apiserver.admission.policies.variables import activation, asker

        obj = attributes.obj
        assert obj is not None
        values = activation(
            attributes,
            matched,
            obj,
            attributes.old,
            self._namespace(attributes),
            asker(self._authorizer, attributes),
            has_params=hook.spec.get("paramKind") is not None,
            params=param,
        )
        changed = await evaluated(
            self._threads, attributes, partial(policy.change, values, attributes.kind, obj)
        )
        if changed is not obj and changed != obj:
            new = complete(attributes, changed)
            obj.clear()
            obj.update(new)
            attributes.reinvoke = attributes.reinvoke or not attributes.is_reinvoked
