"""`begin`: from an admitted request to a licensed attempt, a stored answer, or a refusal.

The round reads, checks and writes; when its change set loses to somebody else, it is done again on
what is there now, so that the loser hears what really is (TX-PIPE-5).
"""

import contextlib

from msgspec.structs import replace

from amends.contracts.codes import coded
from amends.contracts.enums import Mode
from amends.contracts.errors import AmendsError, Unavailable
from amends.contracts.results import Result
from amends.runtime.acceptance import Acceptance, Known
from amends.runtime.changes import ROUNDS, Draft
from amends.runtime.claim import Claim
from amends.runtime.environment import Environment
from amends.runtime.grounds import Ground, Grounds, Lapsed, with_transaction
from amends.runtime.judging import POLICY_GATE, judged_again
from amends.runtime.previews import Previews
from amends.runtime.refusals import Refusals, denial
from amends.runtime.requests import Admitted
from amends.runtime.running import Running
from amends.runtime.upkeep import Upkeep
from amends.stores.port import Lost
from amends.transactions.binding import CLAIM_LOST
from amends.transactions.replay import reconciliation_required

_PREVIEWS = frozenset({Mode.DRY_RUN, Mode.PLAN, Mode.ROLLBACK_NOT_SUPPORTED})


class Begin:
    """Pipeline steps 9 to 13."""

    def __init__(
        self,
        environment: Environment,
        acceptance: Acceptance,
        previews: Previews,
        upkeep: Upkeep,
    ) -> None:
        self._environment = environment
        self._acceptance = acceptance
        self._refusals = Refusals(environment)
        self._grounds = Grounds(environment, acceptance)
        self._claim = Claim(environment, acceptance)
        self._previews = previews
        self._upkeep = upkeep

    async def begin(self, admitted: Admitted) -> Running | Result:
        """The attempt that may call a connector now, or the result that makes none.

        Raises the coded refusal of steps 9 to 13; a refused action keeps its ordered verdicts.
        """
        for number in range(ROUNDS):
            answer = await self._round(admitted, first=number == 0)
            if not isinstance(answer, Lost):
                return answer
        raise coded("store.contended")

    async def _round(self, admitted: Admitted, *, first: bool) -> Running | Result | Lost:
        answer = await self._accept(await self._judged(admitted), first=first)
        if not isinstance(answer, tuple):
            return answer
        admitted, known = answer
        try:
            ground = await self._grounds.check(admitted, replace(known, first=first))
            if isinstance(ground, Ground):
                admitted = with_transaction(admitted, ground)
                return await self._claim.make(admitted, known, ground, first=first)
            if isinstance(ground, Lapsed):
                raise await self._lapsed(ground)
            return ground
        except Unavailable:
            raise
        except AmendsError as error:
            refusal = self._as_loser(admitted, error, first=first)
            await self._keep_verdict(admitted, known, refusal)
            raise refusal from None

    async def _accept(
        self, admitted: Admitted, *, first: bool
    ) -> tuple[Admitted, Known] | Result | Lost:
        """Step 9: what is known already, a replay, or a preview, which ends here."""
        try:
            admitted, known = await self._acceptance.look_up(admitted, first=first)
            if known.replay is not None:
                return known.replay
            if admitted.mode in _PREVIEWS:
                return await self._previews.answer(admitted, known)
        except Unavailable:
            raise
        except AmendsError as error:
            passed, now = admitted.verdicts, admitted.now
            await self._refusals.note(admitted.request, passed, "acceptance", error, now)
            raise
        return admitted, known

    async def _judged(self, admitted: Admitted) -> Admitted:
        """The request under the rules of now, which may have changed since step 8 (PO-2)."""
        try:
            return judged_again(self._environment.policy, admitted)
        except AmendsError as error:
            passed, now = admitted.verdicts[:-1], admitted.now
            await self._refusals.note(admitted.request, passed, POLICY_GATE, error, now)
            raise

    async def _lapsed(self, lapsed: Lapsed) -> AmendsError:
        """Whoever sees a lapsed lease first writes the unknown outcome (TX-EXEC-2)."""
        record = await self._upkeep.lapse(lapsed.stored)
        return reconciliation_required(record or lapsed.stored.document)

    def _as_loser(self, admitted: Admitted, error: AmendsError, *, first: bool) -> AmendsError:
        """A commit that lost its claim in this very race hears so."""
        lost = not first and error.code == "transaction.plan_not_committable"
        if admitted.mode is Mode.COMMIT and lost:
            return coded(CLAIM_LOST, error.details)
        return error

    async def _keep_verdict(self, admitted: Admitted, known: Known, error: AmendsError) -> None:
        """Keep an accepted action that was refused, so that "why" can be shown; once."""
        if known.action is not None or admitted.request.recovering:
            return
        draft = Draft(admitted.tenant, admitted.transaction_id)
        unkeyed = Known(action=None)
        verdict = denial("transaction", error)
        draft.insert(self._acceptance.document(admitted, unkeyed, draft, verdict))
        with contextlib.suppress(Unavailable):  # the refusal itself is what the caller has to hear
            await draft.commit(self._environment.store, None, tail=None)
