"""usage.alcove.io: reports of what tenants use, and their sums."""

from alcove.api import names, usage
from alcove.api.fields import FieldError, invalid, too_many
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.objects import Object, get

REPORT_HOURS_MAX = 64
REPORT_TENANTS_MAX = 16_384
"""Tenants in all hours of one report together."""
RECORD_HOURS_MAX = usage.DAY_HOURS


def validate_report(obj: Object) -> list[FieldError]:
    hours = get(obj, "spec", "hours", default={})
    if len(hours) > REPORT_HOURS_MAX:
        return [too_many("spec.hours", len(hours), REPORT_HOURS_MAX)]
    tenants = sum(map(len, hours.values()))
    if tenants > REPORT_TENANTS_MAX:
        return [too_many("spec.hours", tenants, REPORT_TENANTS_MAX)]
    try:
        usage.decode_hours(hours)
    except ValueError as error:
        return [invalid("spec.hours", "", str(error))]
    return []


def validate_record(obj: Object) -> list[FieldError]:
    tenant, hours = get(obj, "spec", "tenant", default=""), get(obj, "spec", "hours", default={})
    if len(hours) > RECORD_HOURS_MAX:
        return [too_many("spec.hours", len(hours), RECORD_HOURS_MAX)]
    try:
        usage.decode_hours({hour: {tenant: amounts} for hour, amounts in hours.items()})
    except ValueError as error:
        return [invalid("spec.hours", "", str(error))]
    return []


STRATEGIES: dict[str, Strategy] = {
    "usagereports": Strategy(
        validate=validate_report,
        validate_name=names.name_is_path_segment,
        status_leaves=CLIENT_METADATA,
        has_status=True,
    ),
    "usagerecords": Strategy(validate=validate_record),
}
