"""The HorizontalPodAutoscaler controller: reads the target's scale, its pods and metrics, and sets a new
size.

Each autoscaler is reconciled every `PERIOD_SECONDS`. It reads pods and metrics of the autoscaler's tenant and
namespace only, by the selector in the target's scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from alcove.api import selectors
from alcove.api.errors import ApiError, BadRequest, NotFound
from alcove.api.objects import Object, get, labels
from alcove.client import paths
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import HORIZONTAL_POD_AUTOSCALERS, PODS, Resource
from alcove.controllers.autoscaling import custom_metrics, limits, samples, status, targets, usage
from alcove.controllers.autoscaling.samples import MetricsUnavailable
from alcove.controllers.autoscaling.targets import CompetingAutoscalers
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

PERIOD_SECONDS = 15.0
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")


class ScaleTarget(Struct):
    resource: Resource
    body: Object

    @property
    def replicas(self) -> int:
        return int(get(self.body, "spec", "replicas", default=0))

    @property
    def counted(self) -> int:
        """The replicas that there are."""
        return int(get(self.body, "status", "replicas", default=0))

    @property
    def selector(self) -> str:
        return str(get(self.body, "status", "selector", default=""))


class ScalingOutcome(Struct, kw_only=True):
    current: int = 0
    desired: int = 0
    reason: str = ""
    """Why the size changes, for the event."""
    conditions: list[Condition]
    metrics: list[Object] | None = None
    scaled_at: float | None = None


class HorizontalPodAutoscalerController(Controller):
    name = "horizontal-pod-autoscaler"
    resource = HORIZONTAL_POD_AUTOSCALERS
    workers = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._scalers = self.mirror(HORIZONTAL_POD_AUTOSCALERS)
        self._pods = self.mirror(PODS)
        self._histories: dict[ObjectKey, limits.ScalingHistory] = {}
        self._rivals = CompetingAutoscalers()
        self.on(self._scalers, self._changed)

    def _changed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Only changes of the spec: this controller's status updates must not enqueue the autoscaler."""
        if (
            change.kind is ChangeType.DELETED
            or change.old is None
            or change.old.get("spec") != change.obj.get("spec")
        ):
            yield change.key

    async def reconcile(self, key: ObjectKey) -> Result:
        hpa = self._scalers.get(key)
        if hpa is None or "deletionTimestamp" in hpa["metadata"]:
            # Not in `_changed`: a reconcile that is running at that time would add the entries again.
            self._histories.pop(key, None)
            self._rivals.forget(key)
            return DONE
        try:
            scale = await self._scale(key, hpa)
        except (MetricsUnavailable, ApiError) as error:
            reason = str(error) if isinstance(error, MetricsUnavailable) else error.message
            self.events.warning(key.plane, hpa, "FailedGetScale", reason)
            message = f"the HPA controller was unable to get the target's current scale: {reason}"
            old_status = hpa.get("status") or {}
            failed = ScalingOutcome(
                current=old_status.get("currentReplicas", 0),
                desired=old_status.get("desiredReplicas", 0),
                conditions=[Condition(status.ABLE, False, "FailedGetScale", message)],
            )
            await self._write(key, hpa, failed)
            return Result(after_seconds=PERIOD_SECONDS)
        outcome = await self._decide(key, hpa, scale)
        if outcome.desired != outcome.current:
            await self._rescale(key, hpa, scale, outcome)
        await self._write(key, hpa, outcome)
        return Result(after_seconds=PERIOD_SECONDS)

    async def _scale(self, key: ObjectKey, hpa: Object) -> ScaleTarget:
        reference = hpa["spec"]["scaleTargetRef"]
        client = self.client(key)
        resource = await targets.find(client, key.tenant, reference)
        body = await client.get(
            key.tenant, resource, reference["name"], namespace=key.namespace, subresource="scale"
        )
        return ScaleTarget(resource, body)

    # Deciding

    async def _decide(self, key: ObjectKey, hpa: Object, scale: ScaleTarget) -> ScalingOutcome:
        spec, current = hpa["spec"], scale.replicas
        bounds = limits.ReplicaBounds(spec.get("minReplicas", 1), spec["maxReplicas"])
        history = self._histories.get(key)
        if history is None:
            # There is no history after a restart: assume that the current size was recommended until now.
            history = self._histories[key] = limits.ScalingHistory(recommended=[(self.clock(), current)])
        outcome = ScalingOutcome(current=current, desired=current, conditions=[status.GOT_SCALE])
        if current == 0 and bounds.least != 0:
            outcome.conditions.append(status.DISABLED)
        elif current > bounds.most:
            outcome.desired = bounds.most
            outcome.reason = "Current number of replicas above Spec.MaxReplicas"
        elif current < bounds.least:
            outcome.desired = bounds.least
            outcome.reason = "Current number of replicas below Spec.MinReplicas"
        else:
            await self._by_metrics(key, hpa, scale, bounds, history, outcome)
        return outcome

    async def _by_metrics(
        self,
        key: ObjectKey,
        hpa: Object,
        scale: ScaleTarget,
        bounds: limits.ReplicaBounds,
        history: limits.ScalingHistory,
        outcome: ScalingOutcome,
    ) -> None:
        largest = await self._largest(key, hpa, scale, outcome)
        if largest is None:
            return
        limited = limits.limited(
            largest.replicas, scale.replicas, bounds, hpa["spec"].get("behavior"), history, self.clock()
        )
        outcome.conditions.append(Condition(status.ABLE, True, limited.able.reason, limited.able.message))
        limit = limited.limit
        outcome.conditions.append(Condition(status.LIMITED, limited.is_limited, limit.reason, limit.message))
        outcome.desired = limited.replicas
        above = limited.replicas > scale.replicas
        outcome.reason = f"{largest.name} above target" if above else "All metrics below target"

    async def _largest(
        self, key: ObjectKey, hpa: Object, scale: ScaleTarget, outcome: ScalingOutcome
    ) -> status.ObservedMetric | None:
        """The metric that recommends the most replicas. None if no recommendation can be made."""
        selector = scale.selector
        if not selector:
            self.events.warning(key.plane, hpa, "SelectorRequired", "selector is required")
            outcome.conditions.append(status.NO_SELECTOR)
            return None
        try:
            pods = self._selected(key, selector)
        except MetricsUnavailable as error:
            self.events.warning(key.plane, hpa, error.reason, str(error))
            outcome.conditions.append(Condition(status.ACTIVE, False, error.reason, str(error)))
            return None
        metrics: Sequence[Object] = hpa["spec"].get("metrics") or ()
        observed: list[status.ObservedMetric] = []
        failures: list[tuple[str, str]] = []
        for metric in metrics:
            try:
                observed.append(await self._metric(key, hpa, scale, pods, metric))
            except MetricsUnavailable as error:
                reason = f"FailedGet{metric['type']}Metric"
                failures.append((reason, str(error)))
                self.events.warning(key.plane, hpa, reason, str(error))
        outcome.metrics = [each.shown for each in observed]
        largest = max(observed, key=lambda each: each.replicas, default=None)
        # Do not scale down while a metric is unavailable: it might recommend more replicas.
        if largest is None or (failures and largest.replicas < scale.replicas):
            reason, cause = (
                failures[0] if failures else ("InvalidMetricSourceType", "no metrics are specified")
            )
            message = f"the HPA was unable to compute the replica count: {cause}"
            outcome.conditions.append(Condition(status.ACTIVE, False, reason, message))
            text = f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), first error is: {cause}"
            self.events.warning(key.plane, hpa, "FailedComputeMetricsReplicas", text)
            return None
        message = f"the HPA was able to successfully calculate a replica count from {largest.name}"
        outcome.conditions.append(Condition(status.ACTIVE, True, "ValidMetricFound", message))
        return largest

    async def _metric(
        self, key: ObjectKey, hpa: Object, scale: ScaleTarget, pods: Sequence[Object], metric: Object
    ) -> status.ObservedMetric:
        match metric["type"]:
            case "Resource":
                source, container = metric["resource"], ""
            case "ContainerResource":
                source = metric["containerResource"]
                container = source["container"]
            case _:
                return await self._custom_metric(key, hpa, scale, pods, metric)
        resource, target_spec = source["name"], source["target"]
        items = await self._read_metrics(key, scale.selector)
        samples_by_pod = samples.read(items, resource, container)
        if "averageUtilization" in target_spec:
            requests = samples.requests(pods, resource, container)
            target = usage.MetricTarget(percent=target_spec["averageUtilization"], requests=requests)
        else:
            target = usage.MetricTarget(milli=samples.to_milli(target_spec["averageValue"]))
        desired = usage.replicas(
            scale.replicas, pods, samples_by_pod, resource, target, _tolerance(hpa), self.clock()
        )
        return status.observed_metric(metric, desired)

    async def _custom_metric(
        self, key: ObjectKey, hpa: Object, scale: ScaleTarget, pods: Sequence[Object], metric: Object
    ) -> status.ObservedMetric:
        kind, client, tolerance = metric["type"], self.client(key), _tolerance(hpa)
        source = metric[kind.lower()]
        try:
            match kind:
                case "Pods":
                    milli = samples.to_milli(source["target"]["averageValue"])
                    by_pod = await custom_metrics.of_pods(client, key, source, scale.selector)
                    target = usage.MetricTarget(milli=milli)
                    desired = usage.replicas(
                        scale.replicas, pods, by_pod, "", target, tolerance, self.clock()
                    )
                    return status.observed_custom_metric(metric, desired, "averageValue")
                case "Object":
                    value = await custom_metrics.of_object(client, key, source)
                case _:
                    value = await custom_metrics.external(client, key, source)
            field = "value" if "value" in source["target"] else "averageValue"
            target_milli = samples.to_milli(source["target"][field])
            if field == "value":
                desired = usage.replicas_for_value(scale.replicas, pods, value, target_milli, tolerance)
            else:
                desired = usage.replicas_for_average(
                    scale.replicas, scale.counted, value, target_milli, tolerance
                )
        except MetricsUnavailable as error:
            name = source["metric"]["name"]
            shown = f"external metric {key.namespace}/{name}" if kind == "External" else f"metric {name}"
            raise MetricsUnavailable(f"unable to get {shown}: {error}") from error
        return status.observed_custom_metric(metric, desired, field)

    async def _read_metrics(self, key: ObjectKey, selector: str) -> Sequence[Object]:
        path = paths.collection(key.tenant, POD_METRICS, key.namespace)
        try:
            body = await self.client(key).request("GET", paths.with_query(path, {"labelSelector": selector}))
        except ApiError as error:
            raise MetricsUnavailable(
                f"unable to fetch metrics from resource metrics API: {error.message}"
            ) from error
        items: Sequence[Object] = body.get("items") or ()
        if not items:
            raise MetricsUnavailable("no metrics returned from resource metrics API")
        return items

    def _selected(self, key: ObjectKey, text: str) -> list[Object]:
        """The pods that the selector matches. Raises MetricsUnavailable if the selector is invalid, or if
        another autoscaler selects one of these pods."""
        try:
            selector = selectors.parse(text)
        except BadRequest as error:
            message = f"couldn't convert selector into a corresponding internal selector: {error.message}"
            raise MetricsUnavailable(message, "InvalidSelector") from error
        self._rivals.note(key, selector)
        candidates = self._pods.list(key.plane, key.tenant, key.namespace)
        pods = [pod for pod in candidates if selector.matches(labels(pod))]
        if others := self._rivals.of(key, pods):
            message = f"pods by selector {text} are controlled by multiple HPAs: {[key.name, *others]}"
            raise MetricsUnavailable(message, "AmbiguousSelector")
        return pods

    # Doing

    async def _rescale(
        self, key: ObjectKey, hpa: Object, scale: ScaleTarget, outcome: ScalingOutcome
    ) -> None:
        scale.body["spec"] = {**(scale.body.get("spec") or {}), "replicas": outcome.desired}
        size = f"New size: {outcome.desired}; reason: {outcome.reason}"
        try:
            await self.client(key).update(key.tenant, scale.resource, scale.body, subresource="scale")
        except ApiError as error:
            self.events.warning(key.plane, hpa, "FailedRescale", f"{size}; error: {error.message}")
            message = f"the HPA controller was unable to update the target scale: {error.message}"
            outcome.conditions.append(Condition(status.ABLE, False, "FailedUpdateScale", message))
            outcome.desired = outcome.current
            return
        now = self.clock()
        self._histories[key].changed(outcome.current, outcome.desired, now)
        self.events.normal(key.plane, hpa, "SuccessfulRescale", size)
        message = f"the HPA controller was able to update the target scale to {outcome.desired}"
        outcome.conditions.append(Condition(status.ABLE, True, "SucceededRescale", message))
        outcome.scaled_at = now

    async def _write(self, key: ObjectKey, hpa: Object, outcome: ScalingOutcome) -> None:
        new = status.updated(
            hpa,
            outcome.current,
            outcome.desired,
            outcome.conditions,
            outcome.metrics,
            outcome.scaled_at,
            self.clock(),
        )
        if new == hpa.get("status"):
            return
        hpa["status"] = new
        try:
            await self.client(key).update(key.tenant, HORIZONTAL_POD_AUTOSCALERS, hpa, subresource="status")
        except NotFound:
            pass


def _tolerance(hpa: Object) -> usage.Tolerance:
    def for_direction(direction: str) -> float:
        value = get(hpa, "spec", "behavior", direction, "tolerance")
        return usage.TOLERANCE if value is None else samples.to_milli(value) / 1000

    return usage.Tolerance(for_direction("scaleDown"), for_direction("scaleUp"))
