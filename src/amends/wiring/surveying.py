"""Which driver answers questions about a whole store."""

from contextlib import AbstractContextManager

from amends.contracts.errors import Unavailable
from amends.stores.sqlite.survey import Survey
from amends.stores.surveys import Surveyed
from amends.wiring.places import OnServer, Place


def survey_of(place: Place) -> AbstractContextManager[Surveyed]:
    """A store, open for questions in a `with` block; not from an event loop. Raises as the drivers.

    Raises `Unavailable` (`store.not_found`) for a server's database that holds no store.
    """
    if not isinstance(place, OnServer):
        return Survey(place)
    from amends.stores.postgres.survey import PostgresSurvey

    survey = PostgresSurvey(place.url)
    if survey.is_empty:
        survey.__exit__(None, None, None)
        raise Unavailable(
            "store.not_found",
            "There is no store in that database.",
            next_step="Check the store URL; a program that opens the store makes one.",
        )
    return survey
