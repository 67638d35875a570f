"""Attempts to get out of a real container, each made from the inside."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from amends.cli.main import run
from amends.containment.bubblewrap import HOSTNAME
from amends.containment.entering import Contain, enclose
from amends.containment.findings import Property, State
from amends.containment.probing import find_bubblewrap, probe
from amends.containment.provisions import Executable, OriginSocket, WholeNetwork
from amends.contracts.errors import Unavailable
from amends.contracts.worker_grant import Resource, ResourceKind
from tests.acceptance.containers import (
    Container,
    a_container,
    namespaces_are_made,
    need_namespaces,
    program_of,
    users,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")

SCRATCH: Final = tempfile.gettempdir()
STRIPPER: Final = Path(__file__).with_name("stripped_bwrap.py")
TRIES: Final = """
import json, os, sys

def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return error.strerror

def told(**found):
    json.dump(found, sys.stdout)
"""


@pytest.fixture(params=users())
def container(request: pytest.FixtureRequest) -> Iterator[Container]:
    need_namespaces(request.param)
    with a_container(request.param) as one:
        yield one


@pytest.fixture
def ours() -> Iterator[Container]:
    need_namespaces("ourselves")
    with a_container("ourselves") as one:
        yield one


def stripped(**change: Any) -> tuple[str, ...]:
    """A `bwrap` that is not quite called as it should be."""
    wrapper = (sys.executable, "-I", "-S", str(STRIPPER))
    return (*wrapper, *find_bubblewrap(), "--", json.dumps(change))


# ── the network ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-5")
def test_no_network_is_reached(container: Container) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        found = container.run(
            TRIES
            + """
import socket
local, far, named = (socket.socket(kind, way) for kind, way in (
    (socket.AF_INET, socket.SOCK_STREAM),
    (socket.AF_INET, socket.SOCK_DGRAM),
    (socket.AF_INET, socket.SOCK_DGRAM),
))
told(
    local=tried(local.connect, ("127.0.0.1", int(sys.argv[1]))),
    far=tried(far.sendto, b"out", ("192.0.2.1", 9)),
    interfaces=[name for _, name in socket.if_nameindex()],
)
""",
            str(server.getsockname()[1]),
        )
        with pytest.raises(BlockingIOError):
            server.accept()
    assert found == {
        "local": "Connection refused",
        "far": "Network is unreachable",
        "interfaces": ["lo"],
    }


def test_an_abstract_socket_of_the_machine_is_not_there(container: Container) -> None:
    name = f"amends-tried-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as server:
        server.bind("\0" + name)
        server.listen()
        found = container.run(
            TRIES
            + """
import socket
told(one=tried(socket.socket(socket.AF_UNIX).connect, chr(0) + sys.argv[1]))
""",
            name,
        )
    assert found == {"one": "Connection refused"}


def test_a_granted_origin_is_reached_through_its_proxy_alone(ours: Container) -> None:
    path = ours.ground.folder / "proxy.sock"
    wanted = Resource(ResourceKind.NETWORK_ORIGIN, "api")
    program = program_of("ourselves", ours.ground)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as server:
        server.bind(str(path))
        server.listen()
        found = ours.granting({wanted: OriginSocket(str(path))}, program).run(
            TRIES
            + """
import socket
told(
    proxy=tried(socket.socket(socket.AF_UNIX).connect, sys.argv[1]),
    interfaces=[name for _, name in socket.if_nameindex()],
)
""",
            str(path),
        )
    assert found == {"proxy": None, "interfaces": ["lo"]}


async def test_a_network_that_is_granted_whole_is_there_and_said_to_be_open(
    ours: Container,
) -> None:
    wanted = Resource(ResourceKind.NETWORK_ORIGIN, "anything")
    opened = ours.granting({wanted: WholeNetwork()}, program_of("ourselves", ours.ground))
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        program = TRIES + (
            "import socket\n"
            "told(one=tried(socket.socket().connect, ('127.0.0.1', int(sys.argv[1]))))"
        )
        assert opened.run(program, str(server.getsockname()[1])) == {"one": None}
    report = await probe(opened.containment)
    assert (report.contained, report.open) == (True, (Property.NET,))


# ── processes and the kernel ─────────────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-5")
def test_no_other_process_is_seen_or_signalled(container: Container) -> None:
    found = container.run(
        TRIES
        + """
own = {"1", str(os.getpid())}
told(
    others=[name for name in os.listdir("/proc") if name.isdecimal() and name not in own],
    signalled=tried(os.kill, int(sys.argv[1]), 0),
    host=os.uname().nodename,
)
""",
        str(os.getpid()),
    )
    assert found == {"others": [], "signalled": "No such process", "host": HOSTNAME}


def test_it_has_no_rights_and_can_get_none(container: Container) -> None:
    found = container.run(
        TRIES
        + """
import ctypes
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
libc = ctypes.CDLL(None, use_errno=True)
told(
    capabilities=sorted({status[name].strip("0 \\t\\n") for name in status if name[:3] == "Cap"}),
    no_new=status["NoNewPrivs"].strip(),
    groups=status["Groups"].strip() in ("", str(os.getgid())),
    namespace=libc.unshare(0x10000000),
    mount=libc.mount(b"none", b"/proc", None, 32 | 4096, None),
)
"""
    )
    assert found == {
        "capabilities": [""],
        "no_new": "1",
        "groups": True,
        "namespace": -1,
        "mount": -1,
    }


# ── files ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.rule("INT-5")
def test_nothing_outside_is_written(container: Container) -> None:
    ground = container.ground
    forbidden = [
        str(ground.hidden / "file"), str(ground.hidden / "new"),
        str(ground.granted / "file"), str(ground.granted / "new"), str(ground.token),
        "/new", "/usr/lib/new", "/dev/new", "/etc/new", container.containment.interpreter,
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/1/oom_score_adj",
    ]  # fmt: skip
    private = [str(ground.folder / "new"), "/tmp/new", "/dev/shm/new"]
    allowed = [str(ground.state / "new"), str(ground.out / "new"), *private]
    found = container.run(
        TRIES
        + """
def write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))
    return "written"
told(**{path: tried(write, path) for path in sys.argv[1:]})
""",
        *forbidden,
        *allowed,
    )
    assert [path for path in forbidden if found[path] == "written"] == []
    assert [path for path in allowed if found[path] != "written"] == []
    assert (ground.state / "new").exists()
    assert (ground.out / "new").exists()
    assert [path for path in private if Path(path).exists()] == []
    assert [path.read_text() for path in (ground.token, ground.granted / "file")] == [
        "untouched",
        "untouched",
    ]


@pytest.mark.rule("INT-5")
def test_nothing_that_is_not_granted_is_read(container: Container) -> None:
    ground = container.ground
    forbidden = [
        str(ground.hidden), str(ground.hidden / "file"), "/etc/passwd", "/etc/hosts",
        "/usr/bin/env", "/home", "/var", "/run", "/sys/kernel", "/proc/1/root/etc/passwd",
        "/proc/1/cwd/etc/passwd",
        f"/proc/{os.getpid()}/environ",
    ]  # fmt: skip
    granted = [str(ground.granted / "file"), str(ground.token)]
    found = container.run(
        TRIES
        + """
def read(path):
    return os.listdir(path) if os.path.isdir(path) else open(path).read()
told(
    found={path: tried(read, path) for path in sys.argv[1:]},
    beside=sorted(os.listdir(os.path.dirname(sys.argv[-1]))),
    scratch=os.listdir("/dev/shm"),
)
""",
        *forbidden,
        *granted,
    )
    assert {found["found"][path] for path in forbidden} == {"No such file or directory"}
    assert {found["found"][path] for path in granted} == {"untouched"}
    assert found["beside"] == ["granted", "out", "state", "token"]
    assert found["scratch"] == []


def test_a_link_that_the_worker_makes_leads_nowhere_outside(container: Container) -> None:
    target = container.ground.hidden / "file"
    found = container.run(
        TRIES
        + """
link = sys.argv[1] + "/link"
os.symlink(sys.argv[2], link)
told(one=tried(open, link))
""",
        str(container.ground.out),
        str(target),
    )
    assert found == {"one": "No such file or directory"}


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_the_private_folders_take_no_more_than_they_may(ours: Container, folder: str) -> None:
    small = ours._replace(containment=replace(ours.containment, scratch_bytes=1024 * 1024))
    found = small.run(
        TRIES
        + """
def fill(path):
    with open(path, "wb", 0) as file:
        for _ in range(32):
            if file.write(bytes(65536)) < 65536:
                return "full"
told(one=tried(fill, sys.argv[1] + "/file"))
""",
        folder,
    )
    assert found["one"] in {"full", "No space left on device"}


def test_a_granted_program_runs_and_others_are_not_there(ours: Container) -> None:
    wanted = Resource(ResourceKind.EXECUTABLE, "true")
    one = ours.granting({wanted: Executable("/usr/bin/true")}, program_of("ourselves", ours.ground))
    found = one.run(
        TRIES
        + """
import shutil, subprocess
told(
    granted=subprocess.run(["true"]).returncode,
    there=sorted(os.listdir("/usr/bin")),
    shell=shutil.which("sh"),
)
"""
    )
    assert found == {"granted": 0, "there": ["true"], "shell": None}


# ── what is handed over ──────────────────────────────────────────────────────────────────────────


def test_nothing_of_the_hosts_environment_is_there(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMENDS_HOST_SECRET", "s3cret")
    found = container.run(
        TRIES
        + """
paths = ["/proc/1/environ", "/proc/1/cmdline", "/proc/self/environ"]
told(
    names=sorted(os.environ),
    texts=[open(path, "rb").read().decode("latin-1") for path in paths],
)
"""
    )
    allowed = {*container.environment, "PWD", "LC_CTYPE"}
    assert set(found["names"]) <= allowed
    assert "s3cret" not in "".join(found["texts"])
    assert "AMENDS_HOST_SECRET" not in "".join(found["texts"])


def test_only_the_descriptors_that_were_handed_over_are_there(container: Container) -> None:
    handed, kept = os.pipe()
    os.set_inheritable(kept, True)
    try:
        found = container.run(
            TRIES
            + """
def is_open(one):
    try:
        return bool(os.fstat(one))
    except OSError:
        return False
told(open=[one for one in range(256) if is_open(one)])
""",
            pass_fds=(handed,),
        )
    finally:
        os.close(handed)
        os.close(kept)
    assert found["open"] == sorted({0, 1, 2, handed})


def test_amends_can_be_imported_inside(ours: Container) -> None:
    program = TRIES + "import amends\ntold(one=amends.__name__)"
    assert ours.run(program) == {"one": "amends"}


# ── its end ──────────────────────────────────────────────────────────────────────────────────────

BEATS: Final = """
import os, sys, time
if os.fork():
    time.sleep(60)
while True:
    with open(sys.argv[1], "a") as file:
        file.write(".")
    time.sleep(0.01)
"""
PARENT: Final = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:])
time.sleep(60)
"""


def beats(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def until(condition: Any, limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.rule("INT-5")
@pytest.mark.parametrize("killed", ["the parent", "bwrap"])
def test_everything_in_it_ends_when_its_parent_is_killed(container: Container, killed: str) -> None:
    heart = container.ground.state / "heart"
    command = container.command(BEATS, str(heart))
    if killed == "the parent":
        command = [sys.executable, "-c", PARENT, *command]
    process = subprocess.Popen(command, env=container.environment)
    try:
        until(lambda: beats(heart) > 3)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()

    def is_still() -> bool:
        before = beats(heart)
        time.sleep(0.2)
        return beats(heart) == before

    until(is_still)


# ── the probe ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("user", users())
async def test_a_probe_and_the_kernel_agree_on_whether_there_are_containers(user: str) -> None:
    with a_container(user) as one:
        report = await probe(one.containment, bubblewrap=one.bubblewrap)
        assert report.ran is namespaces_are_made(user)
        assert bool(report.reason) is not report.ran


@pytest.mark.rule("INT-5")
async def test_a_probe_finds_that_everything_holds(container: Container) -> None:
    report = await probe(container.containment, bubblewrap=container.bubblewrap)
    assert {one.property: one.state for one in report.findings} == dict.fromkeys(
        Property, State.HELD
    )
    assert report.summary.startswith("Contained by bubblewrap ")
    told = container.run("import json, os; print(json.dumps(os.getuid()))")
    assert report.as_root is (told == 0)
    assert report.as_root is (os.geteuid() == 0 and container.bubblewrap == find_bubblewrap())


STRIPPED: Final[list[tuple[dict[str, Any], set[Property]]]] = [
    ({"drop": [["--unshare-pid"]]}, {Property.PID}),
    ({"drop": [["--unshare-net"]]}, {Property.NET}),
    ({"drop": [["--unshare-ipc"]]}, {Property.IPC}),
    ({"drop": [["--unshare-uts"], ["--hostname", HOSTNAME]]}, {Property.UTS}),
    ({"drop": [["--remount-ro", "/"]]}, {Property.READ_ONLY}),
    ({"drop": [["--remount-ro", "/proc"]]}, {Property.READ_ONLY}),
    ({"drop": [["--remount-ro", "/dev"]]}, {Property.READ_ONLY}),
    ({"drop": [["--new-session"]]}, {Property.NEW_SESSION}),
    ({"drop": [["--die-with-parent"]]}, {Property.DIES_WITH_PARENT}),
    ({"environment": {"LEAKED": "1"}}, {Property.ENVIRONMENT}),
    ({"add": ["--setenv", "LEAKED", "1"]}, {Property.ENVIRONMENT}),
    ({"add": ["--ro-bind", SCRATCH, SCRATCH]}, {Property.HIDDEN}),
    ({"add": ["--bind", SCRATCH, SCRATCH]}, {Property.HIDDEN, Property.READ_ONLY}),
    ({"add": ["--ro-bind", "/etc", "/etc"]}, {Property.HIDDEN}),
    ({"descriptor": True}, {Property.DESCRIPTORS}),
]


@pytest.mark.parametrize(
    ("change", "broken"), STRIPPED, ids=[json.dumps(change) for change, _ in STRIPPED]
)
async def test_a_probe_finds_what_does_not_hold(
    ours: Container, change: dict[str, Any], broken: set[Property]
) -> None:
    report = await probe(ours.containment, bubblewrap=stripped(**change))
    assert report.ran, report.reason
    assert set(report.broken) == broken


async def test_required_refuses_what_does_not_hold_and_if_possible_says_so(
    ours: Container,
) -> None:
    leaking = stripped(drop=[["--unshare-net"]])
    with pytest.raises(Unavailable) as caught:
        await enclose(ours.containment, Contain.REQUIRED, bubblewrap=leaking)
    assert caught.value.code == "containment.unavailable"
    assert caught.value.details == {"broken": ["net"], "reason": ""}
    enclosure = await enclose(ours.containment, Contain.IF_POSSIBLE, bubblewrap=leaking)
    assert enclosure.prefix[: len(leaking)] == leaking
    assert enclosure.report.summary == "Not contained: these do not hold: net."


async def test_a_path_that_is_missing_fails_closed(ours: Container) -> None:
    ours.ground.token.unlink()
    with pytest.raises(Unavailable) as caught:
        await enclose(ours.containment, Contain.REQUIRED)
    assert str(ours.ground.token) in str(caught.value.details["reason"])


async def test_required_is_entered_where_it_holds(container: Container) -> None:
    enclosure = await enclose(
        container.containment, Contain.REQUIRED, bubblewrap=container.bubblewrap
    )
    assert enclosure.report.contained
    process = await asyncio.create_subprocess_exec(
        *(*enclosure.prefix, container.containment.interpreter, "-c", "print(1)"),
        env=dict(enclosure.environment),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert printed == b"1\n"


def test_the_command_shows_every_property(
    ours: Container, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["worker", "containment"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["held", one] for one in Property]
    assert run(["worker", "containment", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["contained"] is True
    assert set(data["findings"]) == set(Property)
