"""What is Alcove's on a kubectl command line, and what goes through."""

import pytest
from msgspec import structs

from alcove.cli.all_tenants import except_output, table_format
from alcove.cli.errors import CliError
from alcove.cli.kubectl_arguments import KubectlInvocation, plan, with_options
from alcove.cli.options import OutputFormat

SAME = KubectlInvocation(("get", "pods"))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("get pods", SAME),
        ("get pods --tenant a", KubectlInvocation(("get", "pods"), "a")),
        ("--tenant=a get pods", KubectlInvocation(("get", "pods"), "a")),
        ("--tenant a get pods --tenant a", KubectlInvocation(("get", "pods"), "a")),
        ("get pods --all-tenants", KubectlInvocation(("get", "pods", "--all-namespaces"), all_tenants=True)),
        ("get pods -A --all-tenants", KubectlInvocation(("get", "pods", "-A"), all_tenants=True)),
        ("get pods --all-tenants=false", SAME),
        ("--kubeconfig k get pods", KubectlInvocation(("get", "pods"), kubeconfig="k")),
        ("exec p -- ls --tenant x", KubectlInvocation(("exec", "p", "--", "ls", "--tenant", "x"))),
        (
            "exec p --tenant a -- env --all-tenants",
            KubectlInvocation(("exec", "p", "--", "env", "--all-tenants"), "a"),
        ),
        ("create tenant a", KubectlInvocation(("create", "--filename=-"), new_tenant="a")),
        (
            "create tenant a -o yaml",
            KubectlInvocation(("create", "--filename=-", "-o", "yaml"), new_tenant="a"),
        ),
        ("create namespace tenant", KubectlInvocation(("create", "namespace", "tenant"))),
        ("cp a/ns/pod:/x y", KubectlInvocation(("cp", "ns/pod:/x", "y"), "a")),
        ("cp y a/ns/pod:/x -c main", KubectlInvocation(("cp", "y", "ns/pod:/x", "-c", "main"), "a")),
        ("cp ns/pod:/x y", KubectlInvocation(("cp", "ns/pod:/x", "y"))),
        ("cp ./a/b/c:d ns/pod:/x", KubectlInvocation(("cp", "./a/b/c:d", "ns/pod:/x"))),
        ("cp /a/b/c:d pod:/x --tenant t", KubectlInvocation(("cp", "/a/b/c:d", "pod:/x"), "t")),
        ("", KubectlInvocation(())),
    ],
)
def test_words_are_split(line: str, wanted: KubectlInvocation) -> None:
    assert structs.replace(plan(line.split()), verb="") == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("get pods", "get -s u pods"),
        ("-n x get pods", "-n x get -s u pods"),
        ("--namespace=x -v 9 exec p -- ls", "--namespace=x -v 9 exec -s u p -- ls"),
        ("--help", "--help -s u"),
        ("", "-s u"),
    ],
)
def test_options_before_the_command_keep_their_values(line: str, wanted: str) -> None:
    """`alcove kubectl --tenant red -n shop get pods` failed: the server was put between -n and its value."""
    assert with_options(line.split(), ["-s", "u"]) == wanted.split()


@pytest.mark.parametrize(
    ("line", "verb", "context"),
    [
        ("get pods", "get", ""),
        ("-n x --context c drain node", "drain", "c"),
        ("--namespace=x --context=c drain node", "drain", "c"),
        ("describe pods -- --context d", "describe", ""),
        ("--tenant a -v 9 apply -f x", "apply", ""),
        ("--help", "", ""),
    ],
)
def test_the_command_and_the_context_are_found(line: str, verb: str, context: str) -> None:
    found = plan(line.split())
    assert (found.verb, found.context) == (verb, context)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("get pods --tenant", "needs a value"),
        ("get pods --tenant a --tenant b", "twice"),
        ("get pods --tenant a --all-tenants", "together"),
        ("delete pods --all-tenants", "only be used with `get`"),
        ("cp a/n/p:/x b/n/p:/y", "two tenants"),
        ("cp a/n/p:/x y --tenant b", "--tenant is b"),
        ("create tenant", "needs a name"),
        ("create tenant --help", "needs a name"),
        ("create tenant A_b", "needs a name"),
    ],
)
def test_ambiguous_arguments_are_reported(line: str, expected: str) -> None:
    with pytest.raises(CliError, match=expected) as failure:
        plan(line.split())
    assert failure.value.code == 2


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("get pods", OutputFormat.TABLE),
        ("get pods -o wide", OutputFormat.WIDE),
        ("get pods -owide", OutputFormat.WIDE),
        ("get pods --output=wide", OutputFormat.WIDE),
        ("get pods -o=wide", OutputFormat.WIDE),
        ("get pods -o json", None),
        ("get pods -ojson", None),
        ("get pods -w", None),
        ("get --raw /x", None),
        ("get --raw=/x", None),
    ],
)
def test_who_draws_the_table(line: str, form: OutputFormat | None) -> None:
    assert table_format(line.split()) is form


def test_the_form_of_output_is_taken_out_whole() -> None:
    for line in (
        "get pods -o wide x",
        "get pods -owide x",
        "get pods --output wide x",
        "get pods --output=wide x",
    ):
        assert except_output(line.split()) == ["get", "pods", "x"]
