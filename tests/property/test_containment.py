"""Whatever is granted and provided, a container has that, its program, and nothing else."""

from collections.abc import Mapping
from itertools import pairwise

from hypothesis import event, given
from hypothesis import strategies as st

from amends.containment.bubblewrap import arguments
from amends.containment.description import NETWORK_FILES, describe
from amends.containment.provisions import (
    Executable,
    FileRoot,
    OriginSocket,
    Provision,
    SecretFile,
    WholeNetwork,
    lies_in,
)
from amends.contracts.errors import Misuse
from amends.contracts.worker_grant import Resource, ResourceKind
from tests.unit.containment.stage import PROGRAM, granted

OWN = {*PROGRAM.read_only, *PROGRAM.writable}
PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(
    lambda names: "/srv/" + "/".join(names)
)
OF_KIND: Mapping[ResourceKind, st.SearchStrategy[Provision]] = {
    ResourceKind.FILE_ROOT: st.builds(FileRoot, PATHS, st.booleans()),
    ResourceKind.EXECUTABLE: st.builds(Executable, PATHS),
    ResourceKind.SECRET: st.builds(SecretFile, PATHS),
    ResourceKind.NETWORK_ORIGIN: st.builds(OriginSocket, PATHS) | st.just(WholeNetwork()),
}
RESOURCES = st.builds(Resource, st.sampled_from(ResourceKind), st.sampled_from(["x", "y", "z"]))


@st.composite
def provided(draw: st.DrawFn) -> dict[Resource, Provision]:
    resources = draw(st.lists(RESOURCES, unique=True, max_size=6))
    return {one: draw(OF_KIND[one.kind]) for one in resources}


def path_of(provision: Provision) -> str | None:
    return None if isinstance(provision, WholeNetwork) else provision.path


@given(provided(), st.data())
def test_only_what_is_granted_is_bound_and_only_what_says_so_is_writable(
    provisions: dict[Resource, Provision], data: st.DataObject
) -> None:
    some = data.draw(st.lists(st.sampled_from([*provisions]), unique=True)) if provisions else []
    chosen = [provisions[one] for one in some]
    try:
        words = arguments(describe(PROGRAM, [granted(*some)], provisions))
    except Misuse:
        event("paths overlap")
        return
    network = any(isinstance(one, WholeNetwork) for one in chosen)
    named = OWN | {path for one in chosen if (path := path_of(one))}
    bound = {b for a, b in pairwise(words) if a in {"--bind", "--ro-bind", "--ro-bind-try"}}
    assert bound == named | (set(NETWORK_FILES) if network else set())
    assert ("--unshare-net" in words) is not network
    writable = {b for a, b in pairwise(words) if a == "--bind"}
    allowed = {one.path for one in chosen if isinstance(one, FileRoot) and one.writable}
    assert writable == allowed | set(PROGRAM.writable)
    assert not [path for path in bound for root in writable if path != root and lies_in(path, root)]
