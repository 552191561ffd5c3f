"""Who a container runs as: from the pod, else from the image, names looked up in the image's own files."""

from collections.abc import Sequence

from msgspec import Struct

from alcove.agent.runtime.base import SpecRefused
from alcove.api.objects import Object

ID_MAX = 2**31 - 1


class User(Struct, frozen=True):
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """Supplementary ones, sorted."""
    home: str = "/"


class Accounts(Struct, frozen=True):
    """The text of the image's passwd and group files; empty where it has none."""

    passwd: str = ""
    group: str = ""


class _Account(Struct, frozen=True):
    name: str
    uid: int
    gid: int
    home: str


def resolve(pod: Object, container: Object, image_user: str, accounts: Accounts) -> User:
    """The user of a container, after the pod's and its own security context. SpecRefused: there is none."""
    shared: Object = pod.get("securityContext") or {}
    own: Object = container.get("securityContext") or {}
    asked_uid = own.get("runAsUser", shared.get("runAsUser"))
    asked_gid = own.get("runAsGroup", shared.get("runAsGroup"))
    known = _accounts(accounts.passwd)
    name, _, group = image_user.partition(":")
    account = _find(known, str(asked_uid) if asked_uid is not None else name)
    if account is None:
        account = _unknown(str(asked_uid) if asked_uid is not None else name)
    gid = account.gid
    if asked_gid is not None:
        gid = asked_gid
    elif group and asked_uid is None:
        gid = _group_id(group, accounts.group)
    _check_not_root(own.get("runAsNonRoot", shared.get("runAsNonRoot")), account.uid, asked_uid, name)
    groups = {*shared.get("supplementalGroups", ()), *_fs_groups(shared)}
    if shared.get("supplementalGroupsPolicy", "Merge") == "Merge":
        groups.update(_groups_of(account.name, accounts.group))
    return User(account.uid, gid, tuple(sorted(groups)), account.home)


def _fs_groups(shared: Object) -> Sequence[int]:
    return [shared["fsGroup"]] if shared.get("fsGroup") is not None else []


def _check_not_root(must: bool | None, uid: int, asked_uid: int | None, name: str) -> None:
    if not must:
        return
    if uid == 0:
        raise SpecRefused("container has runAsNonRoot and image will run as root")
    if asked_uid is None and name and not name.isdigit():
        raise SpecRefused(
            f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root"
        )


def _unknown(text: str) -> _Account:
    """Numbers need no account; the empty name is root."""
    if not text:
        return _Account("root", 0, 0, "/")
    if not text.isdigit() or int(text) > ID_MAX:
        raise SpecRefused(f"unable to find user {text}: no matching entries in passwd file")
    return _Account("", int(text), 0, "/")


def _accounts(passwd: str) -> list[_Account]:
    found = []
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and fields[2].isdigit() and fields[3].isdigit():
            found.append(_Account(fields[0], int(fields[2]), int(fields[3]), fields[5] or "/"))
    return found


def _find(known: Sequence[_Account], text: str) -> _Account | None:
    for account in known:
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
