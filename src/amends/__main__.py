"""``python -m amends`` is the command `amends`."""

from amends.cli.starting import start

if __name__ == "__main__":
    start()
