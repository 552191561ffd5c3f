"""The OCI configuration of sandboxes and containers, by tables."""

import pytest
from msgspec import structs

from alcove.agent.cgroups import CgroupLimits
from alcove.agent.runtime.base import Isolation, SpecRefused
from alcove.agent.runtime.config import (
    PATH,
    SANDBOX_MOUNTS_MAX,
    BindMount,
    ContainerContext,
    IdMapping,
    ImageConfig,
    NamespacePaths,
    command,
    container_config,
    network_sysctls,
    sandbox_config,
    shared_namespaces,
)
from alcove.agent.runtime.security import RING0, TENANT
from alcove.agent.runtime.users import User
from alcove.api.objects import Object

PLACE = ContainerContext(
    isolation=Isolation.NAMESPACES,
    policy=TENANT,
    rootfs="/roots/1",
    cgroup="/alcove/pod1/c1",
    limits=CgroupLimits(0, 256, 0, 100),
    seccomp={"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []},
    namespaces=NamespacePaths(network="/run/netns/n"),
    oom_score=500,
)
IMAGE = ImageConfig(
    entrypoint=("/entry",), command=("serve",), env=("PATH=/opt/bin", "LEVEL=info"), working_dir="/srv"
)
MAPPING = IdMapping(200_000)


def config_of(
    container: Object,
    *,
    pod: Object | None = None,
    image: ImageConfig = IMAGE,
    variables: tuple[tuple[str, str], ...] = (),
    mounts: tuple[BindMount, ...] = (),
    context: ContainerContext = PLACE,
    hostname: str = "",
) -> Object:
    return container_config(
        pod or {}, container, image, variables, User(1, 2, (3,), "/home"), mounts, context, hostname
    )


def mounts_of(config: Object) -> dict[str, Object]:
    return {mount["destination"]: mount for mount in config["mounts"]}


def namespaces_of(config: Object) -> dict[str, str]:
    return {each["type"]: each.get("path", "") for each in config["linux"]["namespaces"]}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, ["/entry", "serve"]),
        ({"args": ["other"]}, ["/entry", "other"]),
        ({"command": ["/mine"]}, ["/mine"]),
        ({"command": ["/mine"], "args": ["a", "$(NAME)"]}, ["/mine", "a", "you"]),
    ],
)
def test_commands(container: Object, expected: list[str]) -> None:
    assert command(container, IMAGE, {"NAME": "you"}) == expected


def test_no_command_at_all() -> None:
    with pytest.raises(SpecRefused, match="no command"):
        command({}, ImageConfig(), {})


def test_variables_of_the_container_come_over_those_of_the_image() -> None:
    config = config_of({}, variables=(("NAME", "you"), ("LEVEL", "debug"), ("BOTH", "$(NAME) $(LEVEL)")))
    assert config["process"]["env"] == [
        "PATH=/opt/bin", "HOME=/home", "LEVEL=debug", "NAME=you", "BOTH=you debug",
    ]  # fmt: skip
    assert config_of({}, image=ImageConfig(command=("x",)))["process"]["env"][0] == f"PATH={PATH}"
    assert "TERM=xterm" in config_of({"tty": True})["process"]["env"]


def test_the_hostname_is_a_variable_that_the_container_may_change() -> None:
    """As with other runtimes: operators take it for the name of their pod."""
    image = ImageConfig(command=("x",), env=("HOSTNAME=build",))
    assert "HOSTNAME=web-0" in config_of({}, image=image, hostname="web-0")["process"]["env"]
    own = config_of({}, image=image, hostname="web-0", variables=(("HOSTNAME", "mine"),))
    assert [each for each in own["process"]["env"] if each.startswith("HOSTNAME")] == ["HOSTNAME=mine"]


def test_the_process() -> None:
    process = config_of({"workingDir": "/work", "tty": True})["process"]
    assert process["user"] == {"uid": 1, "gid": 2, "additionalGids": [3]}
    assert (process["cwd"], process["terminal"], process["oomScoreAdj"]) == ("/work", True, 500)
    assert process["noNewPrivileges"] is False
    assert set(process["capabilities"]) == {"bounding", "effective", "permitted"}
    assert config_of({})["process"]["cwd"] == "/srv"
    assert config_of({}, image=ImageConfig(command=("x",)))["process"]["cwd"] == "/"


def test_the_root_directory() -> None:
    assert config_of({})["root"] == {"path": "/roots/1", "readonly": False}
    assert config_of({"securityContext": {"readOnlyRootFilesystem": True}})["root"]["readonly"]


def test_every_container_hides_what_it_must_not_see() -> None:
    linux = config_of({})["linux"]
    assert "/proc/kcore" in linux["maskedPaths"]
    assert "/proc/sys" in linux["readonlyPaths"]
    assert linux["seccomp"] is not None
    assert linux["cgroupsPath"] == "/alcove/pod1/c1"
    assert mounts_of(config_of({}))["/sys"]["options"][-1] == "ro"


def test_a_privileged_container_hides_nothing() -> None:
    context = structs.replace(PLACE, policy=RING0, capabilities=("CAP_CHOWN",))
    config = config_of({"securityContext": {"privileged": True}}, context=context)
    assert (config["linux"]["maskedPaths"], config["linux"]["seccomp"]) == ([], None)
    assert config["linux"]["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert config["process"]["capabilities"]["effective"] == ["CAP_CHOWN"]


def test_profiles_and_proc_as_the_pod_has_them() -> None:
    security = {
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "tight"},
        "procMount": "Unmasked",
    }
    config = config_of({"securityContext": security}, context=structs.replace(PLACE, policy=RING0))
    assert config["process"]["apparmorProfile"] == "tight"
    assert (config["linux"]["maskedPaths"], config["linux"]["readonlyPaths"]) == ([], [])
    assert config["linux"]["seccomp"] is not None
    assert "apparmorProfile" not in config_of({})["process"]
    with pytest.raises(SpecRefused, match="hostUsers"):
        config_of({"securityContext": security})


def test_mounts_inside_a_mount_are_read_only_where_the_pod_wants_it() -> None:
    mounts = tuple(
        BindMount("/x", f"/{mode}", read_only=True, recursive_read_only=mode)
        for mode in ("Enabled", "IfPossible")
    )
    found = mounts_of(config_of({}, mounts=mounts))
    assert all("rro" in found[f"/{mode}"]["options"] for mode in ("Enabled", "IfPossible"))
    sandbox = structs.replace(PLACE, isolation=Isolation.SANDBOX)
    assert "rro" not in mounts_of(config_of({}, mounts=mounts[1:], context=sandbox))["/IfPossible"]["options"]
    with pytest.raises(SpecRefused, match="recursive read-only"):
        config_of({}, mounts=mounts, context=sandbox)


def test_mounts_inside_mounts_come_after_them() -> None:
    mounts = (
        BindMount("/x", "/data/inner/deep"),
        BindMount("/y", "/data", read_only=True),
        BindMount("/z", "/data/inner"),
    )
    config = config_of({}, mounts=mounts)
    bind_mounts = [mount for mount in config["mounts"] if mount["type"] == "bind"]
    assert [mount["destination"] for mount in bind_mounts] == ["/data", "/data/inner", "/data/inner/deep"]
    assert bind_mounts[0]["options"] == ["rbind", "rprivate", "ro", "nodev"]
    assert bind_mounts[1]["options"] == ["rbind", "rprivate", "rw", "nodev"]


def test_namespaces_of_a_container_and_its_sandbox() -> None:
    sandbox = sandbox_config({}, PLACE, "web-0")
    new = {"pid": "", "ipc": "", "uts": "", "mount": "", "cgroup": ""}
    assert namespaces_of(sandbox) == {**new, "network": "/run/netns/n"}
    assert sandbox["hostname"] == "web-0"
    shared = shared_namespaces({}, Isolation.NAMESPACES, "/run/netns/n", 42, None)
    config = config_of({}, context=structs.replace(PLACE, namespaces=shared))
    assert namespaces_of(config) == {
        **new, "network": "/run/netns/n", "ipc": "/proc/42/ns/ipc", "uts": "/proc/42/ns/uts",
    }  # fmt: skip
    assert "hostname" not in config


def test_sharing_processes() -> None:
    pod: Object = {"shareProcessNamespace": True}
    assert shared_namespaces(pod, Isolation.NAMESPACES, "/n", 42, None).pid == "/proc/42/ns/pid"
    one = shared_namespaces(pod, Isolation.SANDBOX, "/n", 0, None)
    assert one.pid == shared_namespaces(pod, Isolation.SANDBOX, "/n", 0, None).pid != ""
    assert shared_namespaces({}, Isolation.SANDBOX, "/n", 0, None) == NamespacePaths(network="/n")


def test_a_pod_on_the_nodes_network_has_no_network_namespace() -> None:
    context = structs.replace(PLACE, policy=RING0, namespaces=NamespacePaths())
    sandbox = sandbox_config({"hostNetwork": True}, context, "node")
    assert "network" not in namespaces_of(sandbox)
    assert sandbox["linux"]["sysctl"] == {}


def test_a_user_namespace() -> None:
    sandbox = sandbox_config({}, structs.replace(PLACE, mapping=MAPPING), "x")
    mapped = [{"containerID": 0, "hostID": 200_000, "size": 65_536}]
    assert (sandbox["linux"]["uidMappings"], sandbox["linux"]["gidMappings"]) == (mapped, mapped)
    assert namespaces_of(sandbox)["user"] == ""
    assert sandbox["linux"]["sysctl"] == {}
    shared = shared_namespaces({}, Isolation.NAMESPACES, "/n", 42, MAPPING)
    context = structs.replace(PLACE, mapping=MAPPING, namespaces=shared)
    config = config_of({}, context=context, mounts=(BindMount("/x", "/x"),))
    assert "uidMappings" not in config["linux"]
    assert namespaces_of(config)["user"] == "/proc/42/ns/user"
    assert "idmap" in mounts_of(config)["/x"]["options"]
    assert mounts_of(config)["/sys"]["type"] == "tmpfs"


def test_sysctls() -> None:
    pod: Object = {
        "securityContext": {
            "sysctls": [
                {"name": "net.ipv4.ping_group_range", "value": "1 0"},
                {"name": "kernel.shm_rmid_forced", "value": "1"},
            ]
        }
    }
    assert network_sysctls(pod) == {"net.ipv4.ping_group_range": "1 0"}
    assert network_sysctls({}) == {"net.ipv4.ping_group_range": "0 2147483647"}
    sysctls = sandbox_config(pod, PLACE, "x")["linux"]["sysctl"]
    assert sysctls == {"net.ipv4.ping_group_range": "1 0", "kernel.shm_rmid_forced": "1"}
    mapped = sandbox_config(pod, structs.replace(PLACE, mapping=MAPPING), "x")
    assert mapped["linux"]["sysctl"] == {"kernel.shm_rmid_forced": "1"}


@pytest.mark.parametrize("unified", [False, True])
@pytest.mark.parametrize("isolation", [Isolation.NAMESPACES, Isolation.SANDBOX])
def test_control_groups_are_shown_and_not_writable(unified: bool, isolation: Isolation) -> None:
    config = config_of({}, context=structs.replace(PLACE, unified_cgroups=unified, isolation=isolation))
    assert mounts_of(config)["/sys/fs/cgroup"]["options"][-1] == "ro"
    has_directory = isolation is Isolation.NAMESPACES and not unified
    assert ("/sys/fs/cgroup" in config["linux"]["readonlyPaths"]) is has_directory
    mapped = config_of({}, context=structs.replace(PLACE, mapping=MAPPING))
    assert "/sys/fs/cgroup" not in mounts_of(mapped)


def test_a_sandbox_may_do_nothing() -> None:
    sandbox = sandbox_config({}, PLACE, "x")
    assert sandbox["process"]["capabilities"] == {"bounding": [], "effective": [], "permitted": []}
    assert sandbox["process"]["noNewPrivileges"]
    assert sandbox["root"]["readonly"]
    with pytest.raises(SpecRefused):
        sandbox_config({"hostPID": True}, PLACE, "x")


def test_more_mounts_than_gvisor_takes_are_refused_in_words() -> None:
    many = tuple(
        BindMount(f"/volumes/{number}", f"/mnt/{number}") for number in range(SANDBOX_MOUNTS_MAX + 1)
    )
    assert mounts_of(config_of({}, mounts=many))["/mnt/124"]
    sandboxed = structs.replace(PLACE, isolation=Isolation.SANDBOX)
    assert mounts_of(config_of({}, mounts=many[1:], context=sandboxed))["/mnt/124"]
    with pytest.raises(SpecRefused, match="125 mounts, and in a sandbox at most 124 are possible"):
        config_of({}, mounts=many, context=sandboxed)
