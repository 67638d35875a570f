"""What is in a container follows from the kinds of the grant's resources, and from nothing else."""

from collections.abc import Mapping
from typing import Final

import pytest

from amends.containment.description import NETWORK_FILES, Bind, Part, Program, describe
from amends.containment.provisions import (
    FITTING,
    Executable,
    FileRoot,
    OriginSocket,
    Provision,
    SecretFile,
    WholeNetwork,
)
from amends.contracts.errors import AmendsError, Misuse, Refused
from amends.contracts.worker_grant import Resource, ResourceKind
from tests.unit.containment.stage import PROGRAM, granted, resource

OF_PROGRAM: Final = {
    Bind("/opt/python", Part.PROGRAM),
    Bind("/usr/lib", Part.PROGRAM),
    Bind("/var/lib/worker", Part.STATE, writable=True),
}
PROVIDED: Final[list[tuple[str, Provision, set[Bind]]]] = [
    ("file_root", FileRoot("/srv/in"), {Bind("/srv/in", Part.GRANT)}),
    (
        "file_root",
        FileRoot("/srv/out", writable=True),
        {Bind("/srv/out", Part.GRANT, writable=True)},
    ),
    ("executable", Executable("/usr/bin/git"), {Bind("/usr/bin/git", Part.GRANT)}),
    ("secret", SecretFile("/etc/keys/token"), {Bind("/etc/keys/token", Part.GRANT)}),
    ("network_origin", OriginSocket("/run/proxy.sock"), {Bind("/run/proxy.sock", Part.GRANT)}),
    (
        "network_origin",
        WholeNetwork(),
        {Bind(path, Part.NETWORK, optional=True) for path in NETWORK_FILES},
    ),
]
NAMES: Final = [f"{kind}-{type(one).__name__}-{len(binds)}" for kind, one, binds in PROVIDED]


def code_of(caught: pytest.ExceptionInfo[AmendsError]) -> str:
    return caught.value.code


@pytest.mark.rule("INT-5")
@pytest.mark.parametrize(("kind", "provision", "binds"), PROVIDED, ids=NAMES)
def test_a_resource_brings_what_its_kind_says_and_nothing_else(
    kind: str, provision: Provision, binds: set[Bind]
) -> None:
    found = describe(PROGRAM, [granted(resource(kind))], {resource(kind): provision})
    assert set(found.binds) == OF_PROGRAM | binds
    assert found.whole_network is isinstance(provision, WholeNetwork)


def test_every_kind_of_resource_can_be_provided() -> None:
    assert set(FITTING) == set(ResourceKind)
    assert {kind for kind, _, _ in PROVIDED} == {kind.value for kind in ResourceKind}


def test_what_is_provided_and_not_granted_is_not_there() -> None:
    provisions = {resource("file_root", "other"): FileRoot("/srv/other")}
    assert set(describe(PROGRAM, [granted()], provisions).binds) == OF_PROGRAM


@pytest.mark.parametrize("kind", [kind.value for kind in ResourceKind])
def test_a_resource_that_nobody_provides_is_refused(kind: str) -> None:
    with pytest.raises(Refused) as caught:
        describe(PROGRAM, [granted(resource(kind))], {})
    assert code_of(caught) == "containment.resource_unknown"
    assert caught.value.details == {"kind": kind, "id": "one"}


@pytest.mark.parametrize(("kind", "provision", "_"), PROVIDED, ids=NAMES)
def test_a_provision_of_another_kind_is_refused(
    kind: str, provision: Provision, _: set[Bind]
) -> None:
    for other in ResourceKind:
        if isinstance(provision, FITTING[other]):
            continue
        wanted = resource(other.value)
        with pytest.raises(Refused) as caught:
            describe(PROGRAM, [granted(wanted)], {wanted: provision})
        assert code_of(caught) == "containment.resource_unknown"


def test_one_process_sees_what_all_grants_of_its_session_name() -> None:
    first, second = resource("file_root", "a"), resource("file_root", "b")
    provisions: Mapping[Resource, Provision] = {
        first: FileRoot("/srv/a"),
        second: FileRoot("/srv/b"),
    }
    grants = [granted(first, tool="one"), granted(second, first, tool="two")]
    paths = [bind.path for bind in describe(PROGRAM, grants, provisions).binds]
    assert paths.count("/srv/a") == paths.count("/srv/b") == 1


def test_a_folder_comes_before_what_lies_in_it() -> None:
    wanted = [resource("file_root", name) for name in ("a", "b", "c")]
    paths = ("/srv/deep/in", "/srv", "/srv/deep")
    provisions: Mapping[Resource, Provision] = {
        one: FileRoot(path) for one, path in zip(wanted, paths, strict=True)
    }
    found = [bind.path for bind in describe(PROGRAM, [granted(*wanted)], provisions).binds]
    assert found == sorted(found, key=lambda path: path.split("/"))


def test_granted_programs_are_searched_for_where_they_are() -> None:
    wanted = [resource("executable", name) for name in ("a", "b", "c")]
    paths = ("/usr/bin/git", "/usr/bin/ssh", "/opt/tool")
    provisions: Mapping[Resource, Provision] = {
        one: Executable(path) for one, path in zip(wanted, paths, strict=True)
    }
    environment = dict(describe(PROGRAM, [granted(*wanted)], provisions).environment)
    assert environment == {"LANG": "C.UTF-8", "PATH": "/usr/bin:/opt"}
    assert "PATH" not in dict(describe(PROGRAM, (), {}).environment)


def test_a_program_in_the_root_is_searched_for_there() -> None:
    wanted = resource("executable")
    found = describe(PROGRAM, [granted(wanted)], {wanted: Executable("/init")})
    assert dict(found.environment)["PATH"] == "/"


@pytest.mark.parametrize(
    "provision",
    [
        FileRoot("/var/lib/worker/data"),
        FileRoot("/var/lib/worker/data", writable=True),
        FileRoot("/var/lib/worker"),
        FileRoot("/opt/python", writable=True),
        FileRoot("/usr", writable=True),
    ],
    ids=repr,
)
def test_nothing_lies_in_what_the_worker_can_write(provision: FileRoot) -> None:
    wanted = resource("file_root")
    with pytest.raises(Misuse) as caught:
        describe(PROGRAM, [granted(wanted)], {wanted: provision})
    assert code_of(caught) == "containment.paths_overlap"


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "srv", "./srv", "/", "/tmp", "//srv", "/srv/", "/srv//in", "/srv/../etc",
        "/srv/.", "/proc", "/proc/1/root", "/dev/sda", "/sys", "/srv\0", "\0abstract", "@abstract",
    ],
)  # fmt: skip
def test_a_path_that_means_something_else_than_it_says_is_refused(path: str) -> None:
    for kind in (FileRoot, Executable, SecretFile, OriginSocket):
        with pytest.raises(Misuse) as caught:
            kind(path)
        assert code_of(caught) == "containment.path_refused"
    for program in ({"read_only": (path,)}, {"read_only": (), "writable": (path,)}):
        with pytest.raises(Misuse):
            Program(interpreter="/bin/python", **program)


@pytest.mark.parametrize("path", ["/tmp/one", "/process", "/devices", "/srv/a b"])
def test_a_path_that_only_looks_alike_is_taken(path: str) -> None:
    assert FileRoot(path).path == path
