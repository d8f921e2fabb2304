"""The process that loads hostile and damaged files, one for all tests."""

import pytest
from loader_process import Loader


@pytest.fixture(scope="session")
def loader():
    with Loader() as process:
        yield process
