"""The app of an operator who settles what a worker left; see `test_worker_capability`."""

import os
from pathlib import Path

from amends.cli.demo.releases import served_by
from tests.acceptance.test_worker_capability import TIMEOUT, worker_of

capabilities = [served_by(worker_of(Path(os.environ["AMENDS_TEST_FOLDER"])), TIMEOUT)]
