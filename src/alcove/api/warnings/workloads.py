"""Warnings for controllers of pods: their names, which become part of pod names, and their templates."""

from alcove.api import names
from alcove.api.objects import Object, get, name
from alcove.api.warnings.templates import claim_spec, template

_COMPLETIONS_MANY = 100_000
_PARALLELISM_MUCH = 10_000


def unnamed(new: Object, old: Object | None) -> list[str]:
    """Check the template in `spec.template`, if it is new or changed."""
    return _template(new, old, "spec", "template")


def named(new: Object, old: Object | None) -> list[str]:
    return [*_name(new, old), *unnamed(new, old)]


def pod_template(new: Object, old: Object | None) -> list[str]:
    return _template(new, old, "template")


def stateful_set(new: Object, old: Object | None) -> list[str]:
    messages = unnamed(new, old)
    for index, claim in enumerate(get(new, "spec", "volumeClaimTemplates", default=())):
        messages += claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}]")
    if get(new, "spec", "revisionHistoryLimit", default=0) < 0:
        message = "a negative value retains all historical revisions; a value >= 0 is recommended"
        messages.append(f"spec.revisionHistoryLimit: {message}")
    return messages


def job(new: Object, old: Object | None) -> list[str]:
    return [*_name(new, old), *_job_spec(new, old, "spec")]


def cron_job(new: Object, old: Object | None) -> list[str]:
    return [*_name(new, old), *_job_spec(new, old, "spec", "jobTemplate", "spec")]


def _name(new: Object, old: Object | None) -> list[str]:
    errors = names.dns_label(name(new)) if old is None else ()
    message = (
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(errors)}]"
    )
    return [message] if errors else []


def _template(new: Object, old: Object | None, *path: str) -> list[str]:
    new_template = get(new, *path, default={})
    if old is not None and new_template == get(old, *path):
        return []
    return template(new_template, f"{'.'.join(path)}.")


def _job_spec(new: Object, old: Object | None, *path: str) -> list[str]:
    spec = get(new, *path, default={})
    if old is not None and spec == get(old, *path):
        return []
    messages: list[str] = []
    is_large = (
        spec.get("completions", 0) > _COMPLETIONS_MANY and spec.get("parallelism", 0) > _PARALLELISM_MUCH
    )
    if spec.get("completionMode") == "Indexed" and is_large:
        messages.append(
            f"{'.'.join(path)}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
            "higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    return messages + _template(new, old, *path, "template")
