"""Notices from the command line: which channels, and what came of telling them.

Deliberately not here: what is told and when it is tried again, which is recovery's.
"""

import asyncio
import os
import shlex
import sys
from typing import Final, NamedTuple

import msgspec

from amends.cli import apps
from amends.cli.answers import Answer
from amends.cli.paper import Paper
from amends.cli.session import Session
from amends.contracts.errors import Misuse, Unavailable
from amends.contracts.json_types import JsonObject
from amends.contracts.notices import Notice, NoticeCursor
from amends.contracts.secrets import Secret
from amends.recovery.notifying import CURSORS, Channel, Notifier
from amends.stores.port import Stored
from amends.wiring.channels import CommandChannel, WebhookChannel
from amends.wiring.opening import Notices

FROM_ENVIRONMENT: Final = "AMENDS_WEBHOOK_SECRET"
_POLL_S: Final = 1.0


class Wish(NamedTuple):
    """Which channels are told, with which link, and whether for good."""

    channels: tuple[Channel, ...]
    link: str
    follow: bool


class StderrChannel:
    """Writes notices to standard error, one line of JSON each."""

    name = "stderr"

    async def tell(self, notice: Notice) -> None:
        """Write it."""
        sys.stderr.write(msgspec.json.encode(notice).decode() + "\n")


def channels_of(log: bool, command: str | None, webhook: str | None) -> tuple[Channel, ...]:
    """The channels that were named. Raises the `notices.*` codes."""
    channels: list[Channel] = []
    if log:
        channels.append(StderrChannel())
    if command is not None:
        channels.append(CommandChannel(*_words(command)))
    if webhook is not None:
        channels.append(WebhookChannel(webhook, Secret(os.environ.get(FROM_ENVIRONMENT, ""))))
    return tuple(channels)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


async def tell(session: Session, wish: Wish) -> Answer:
    """Tell what has not been told, or follow until a signal comes.

    Raises `Misuse` (`cli.usage`) where no channel is named anywhere.
    """
    notices = apps.load_settings(session.options.settings).notices or Notices()
    channels = wish.channels or notices.channels
    if not channels:
        raise Misuse(
            "cli.usage",
            "There is no channel to tell anybody by.",
            next_step="Give --log, --command or --webhook, or settings with notices.",
        )
    store, link = session.engine.environment.store, wish.link or notices.link
    notifiers = [Notifier(store, one, link=link, poll_s=_POLL_S) for one in channels]
    if wish.follow:
        following = asyncio.gather(*(one.run() for one in notifiers))
        await session.stop.first(following)
        following.cancel()
        await asyncio.wait((following,))
    else:
        await asyncio.gather(*(_until_told(one) for one in notifiers))
    items = [await _state(session, one) for one in channels]
    waiting = not wish.follow and any(one["failures"] for one in items)
    return Answer(
        data={"channels": list(items)},
        tell=lambda paper: _tell(paper, items),
        error=_not_told() if waiting else None,
    )


def _not_told() -> Unavailable:
    return Unavailable(
        "notices.not_taken",
        "A channel did not take a notice.",
        next_step="See that its receiver is there; the next run tries it again.",
    )


async def _until_told(notifier: Notifier) -> None:
    while await notifier.round():
        pass


async def _state(session: Session, channel: Channel) -> JsonObject:
    found: Stored[NoticeCursor] | None = await session.engine.environment.store.get(
        NoticeCursor, CURSORS, f"notices:{channel.name}"
    )
    cursor = found.document if found else None
    return {
        "channel": channel.name,
        "failures": cursor.failures if cursor else 0,
        "given_up": cursor.given_up if cursor else 0,
    }


def _tell(paper: Paper, items: list[JsonObject]) -> None:
    for one in items:
        waits = f"failed tries: {one['failures']}; it is tried again" if one["failures"] else "told"
        lost = f"; {one['given_up']} given up" if one["given_up"] else ""
        paper.line(f"{one['channel']}: {waits}{lost}.")
