"""The user a container runs as: from the pod, else from the image; names are looked up in the image's
files."""

from collections.abc import Sequence

from msgspec import Struct

from alcove.agent.runtime.base import SpecRefused
from alcove.api.objects import Object

ID_MAX = 2**31 - 1


class User(Struct, frozen=True):
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """Supplementary groups, sorted."""
    home: str = "/"


class Accounts(Struct, frozen=True):
    """The text of the image's passwd and group files; empty if it has none."""

    passwd: str = ""
    group: str = ""


class _Account(Struct, frozen=True):
    name: str
    uid: int
    gid: int
    home: str


def resolve(pod: Object, container: Object, image_user: str, accounts: Accounts) -> User:
    """The user of a container by its security context, the pod's, and the image. Raises SpecRefused."""
    shared: Object = pod.get("securityContext") or {}
    context: Object = container.get("securityContext") or {}
    run_as_user = context.get("runAsUser", shared.get("runAsUser"))
    run_as_group = context.get("runAsGroup", shared.get("runAsGroup"))
    name, _, group = image_user.partition(":")
    account = _find(_accounts(accounts.passwd), str(run_as_user) if run_as_user is not None else name)
    if account is None:
        account = _unknown(str(run_as_user) if run_as_user is not None else name)
    gid = account.gid
    if run_as_group is not None:
        gid = run_as_group
    elif group and run_as_user is None:
        gid = _group_id(group, accounts.group)
    _check_not_root(context.get("runAsNonRoot", shared.get("runAsNonRoot")), account.uid, run_as_user, name)
    groups = {*shared.get("supplementalGroups", ()), *_fs_groups(shared)}
    if shared.get("supplementalGroupsPolicy", "Merge") == "Merge":
        groups.update(_groups_of(account.name, accounts.group))
    return User(account.uid, gid, tuple(sorted(groups)), account.home)


def _fs_groups(shared: Object) -> Sequence[int]:
    return [shared["fsGroup"]] if shared.get("fsGroup") is not None else []


def _check_not_root(must: bool | None, uid: int, run_as_user: int | None, name: str) -> None:
    if not must:
        return
    if uid == 0:
        raise SpecRefused("container has runAsNonRoot and image will run as root")
    if run_as_user is None and name and not name.isdigit():
        raise SpecRefused(
            f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root"
        )


def _unknown(text: str) -> _Account:
    """The account of a user that is not in passwd: a number needs no entry; the empty name is root."""
    if not text:
        return _Account("root", 0, 0, "/")
    if not text.isdigit() or int(text) > ID_MAX:
        raise SpecRefused(f"unable to find user {text}: no matching entries in passwd file")
    return _Account("", int(text), 0, "/")


def _accounts(passwd: str) -> list[_Account]:
    accounts = []
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and fields[2].isdigit() and fields[3].isdigit():
            accounts.append(_Account(fields[0], int(fields[2]), int(fields[3]), fields[5] or "/"))
    return accounts


def _find(accounts: Sequence[_Account], text: str) -> _Account | None:
    for account in accounts:
        if account.name == text or str(account.uid) == text or (not text and account.uid == 0):
            return account
    return None


def _group_rows(group: str) -> list[list[str]]:
    rows = (line.split(":") for line in group.splitlines())
    return [fields for fields in rows if len(fields) >= 4 and fields[2].isdigit()]


def _group_id(text: str, group: str) -> int:
    for fields in _group_rows(group):
        if fields[0] == text:
            return int(fields[2])
    if not text.isdigit() or int(text) > ID_MAX:
        raise SpecRefused(f"unable to find group {text}: no matching entries in group file")
    return int(text)


def _groups_of(name: str, group: str) -> list[int]:
    """The groups that list the user as a member."""
    return [int(fields[2]) for fields in _group_rows(group) if name and name in fields[3].split(",")]
