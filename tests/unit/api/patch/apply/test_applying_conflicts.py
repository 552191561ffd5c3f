"""Messages of conflicts."""

from alcove.api.errors import status
from alcove.api.patch.apply.applying import Conflicts, conflict_error, remaining_conflicts
from alcove.api.patch.apply.managed import FieldOwner


def test_one_conflict() -> None:
    owner = FieldOwner.updater("kubectl-client-side-apply", "apps/v1", "")
    error = conflict_error({owner: {"f:spec": {"f:replicas": {}}}})
    assert status(error) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": (
            'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
        ),
        "reason": "Conflict",
        "code": 409,
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "kubectl-client-side-apply" using apps/v1',
                    "field": ".spec.replicas",
                }
            ]
        },
    }


def test_many_conflicts_are_listed_by_manager() -> None:
    error = conflict_error(
        {
            FieldOwner.updater("z", "v1", "status"): {"f:status": {"f:phase": {}}},
            FieldOwner.applier("a", ""): {
                "f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"app"}': {"f:image": {}}}}
            },
        }
    )
    assert error.message == (
        'Apply failed with 3 conflicts: conflicts with "a":\n'
        "- .spec.replicas\n"
        '- .spec.containers[name="app"].image\n'
        'conflicts with "z" with subresource "status" using v1:\n'
        "- .status.phase"
    )
    assert error.details is not None
    assert [cause.message for cause in error.details.causes] == [
        'conflict with "a"',
        'conflict with "a"',
        'conflict with "z" with subresource "status" using v1',
    ]


def test_allowed_fields_are_no_conflict() -> None:
    owner = FieldOwner.applier("a", "")
    found: Conflicts = {owner: {"f:x": {}, "f:y": {}}}
    assert remaining_conflicts(found, {"f:x": {}}) == {owner: {"f:y": {}}}
    assert remaining_conflicts(found, {"f:x": {}, "f:y": {}}) == {}
