"""Calls `bwrap` with something left out or put in, so that a probe has something to find.

Run with the real command, `--`, the change as JSON, and then what `bwrap` is called with. A change
has `drop`, lists of words that follow one another; `add`, words put before the last `--`; and
`environment` and `descriptor`, which are handed on.
"""

import json
import os
import sys


def main() -> None:
    real, rest = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    change, words = json.loads(rest[0]), rest[1:]
    for dropped in change.get("drop", ()):
        for place in range(len(words) - len(dropped), -1, -1):
            if words[place : place + len(dropped)] == dropped:
                del words[place : place + len(dropped)]
    if "--" in words:
        end = words.index("--")
        words[end:end] = change.get("add", [])
    if change.get("descriptor"):
        os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
    environment = {**os.environ, **change.get("environment", {})}
    os.execve(real[0], [*real, *words], environment)  # noqa: S606 - becoming it is the point


if __name__ == "__main__":
    main()
