"""A description becomes arguments, in an order that keeps what was promised."""

from collections.abc import Mapping

import pytest

from amends.containment.bubblewrap import PRIVATE, arguments
from amends.containment.description import describe
from amends.containment.provisions import FileRoot, Provision, WholeNetwork
from amends.contracts.worker_grant import Resource
from tests.unit.containment.stage import PROGRAM, bare, granted, resource


def pairs(words: tuple[str, ...], option: str, length: int = 2) -> list[tuple[str, ...]]:
    places = [place for place, word in enumerate(words) if word == option]
    return [words[place + 1 : place + 1 + length] for place in places]


@pytest.mark.parametrize(
    "option",
    "--unshare-user --disable-userns --unshare-pid --unshare-net --unshare-ipc --unshare-uts "
    "--die-with-parent --new-session --clearenv".split(),
)
def test_every_container_is_cut_off_in_every_way(option: str) -> None:
    assert arguments(bare()).count(option) == 1


def test_every_capability_is_dropped() -> None:
    assert pairs(arguments(bare()), "--cap-drop", 1) == [("ALL",)]


def test_the_network_is_shared_only_when_it_is_granted_whole() -> None:
    wanted = resource("network_origin")
    opened = arguments(describe(PROGRAM, [granted(wanted)], {wanted: WholeNetwork()}))
    assert "--unshare-net" not in opened
    assert set(arguments(bare())) - set(opened) == {"--unshare-net"}


def test_what_may_be_written_is_bound_so_and_the_rest_read_only() -> None:
    one, other = resource("file_root", "a"), resource("file_root", "b")
    provisions: Mapping[Resource, Provision] = {
        one: FileRoot("/srv/in"),
        other: FileRoot("/srv/out", writable=True),
    }
    words = arguments(describe(PROGRAM, [granted(one, other)], provisions))
    assert pairs(words, "--bind") == [
        ("/srv/out", "/srv/out"),
        ("/var/lib/worker", "/var/lib/worker"),
    ]
    assert pairs(words, "--ro-bind") == [
        ("/opt/python", "/opt/python"),
        ("/srv/in", "/srv/in"),
        ("/usr/lib", "/usr/lib"),
    ]


def test_what_may_be_missing_is_only_tried() -> None:
    wanted = resource("network_origin")
    words = arguments(describe(PROGRAM, [granted(wanted)], {wanted: WholeNetwork()}))
    assert ("/etc/resolv.conf", "/etc/resolv.conf") in pairs(words, "--ro-bind-try")


def test_the_environment_is_emptied_before_it_is_filled() -> None:
    words = arguments(bare())
    assert words.index("--clearenv") < words.index("--setenv")
    assert pairs(words, "--setenv") == [("LANG", "C.UTF-8")]


def test_private_folders_come_before_binds_and_sealing_comes_last() -> None:
    words = arguments(bare())
    assert pairs(words, "--tmpfs", 1) == [(folder,) for folder in PRIVATE]
    assert pairs(words, "--size", 1) == [(str(bare().scratch_bytes),)] * len(PRIVATE)
    last_private = max(place for place, word in enumerate(words) if word == "--tmpfs")
    first_bind = min(words.index("--bind"), words.index("--ro-bind"))
    assert last_private < first_bind < words.index("--symlink") < words.index("--remount-ro")
    assert pairs(words, "--remount-ro", 1) == [("/proc",), ("/dev",), ("/",)]
    assert words[-3:] == ("--chdir", "/", "--")


def test_links_lead_where_those_of_the_machine_do() -> None:
    assert pairs(arguments(bare()), "--symlink") == [("usr/lib", "/lib")]
