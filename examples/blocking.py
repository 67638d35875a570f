"""Amends in a program without an event loop: the same calls, from as many threads as there are.

`amends.blocking` is a thin portal to the one engine, which runs in a thread of its own. Handlers
are plain functions here; each runs in a thread too. Ctrl-C ends the wait of a call, not its
attempt.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from amends import BlockingAttempt, Conflict, blocking, capability


@dataclass
class Release:
    """Which version goes where."""

    version: str
    environment: str


@capability("releases.deploy", side_effects=["code_execution"])
def deploy(release: Release, attempt: BlockingAttempt) -> dict[str, str]:
    """Deploy; the checkpoint is durable before the next line runs."""
    attempt.checkpoint("cluster", f"rollout-{release.version}")
    return {"deployed": release.version}


def main() -> None:
    """Four threads commit one plan; one of them wins."""
    with blocking.open("sqlite:///releases.db", [deploy]) as amends:
        plan = amends.plan(deploy, Release("1.4.0", "production"))

        def commit(thread: int) -> str:
            try:
                return amends.commit(plan, action_id=f"deploy-{thread}").status.value
            except Conflict:
                return "too late"

        with ThreadPoolExecutor(4) as threads:
            answers = sorted(threads.map(commit, range(4)))
        print(", ".join(answers))

        view = amends.get(plan_id=plan.plan_id)
        assert view.result.provider_operation is not None
        print(view.result.status, view.result.provider_operation.operation_id)


if __name__ == "__main__":
    main()
