"""The process that is forked where a test needs a process of its own."""

import pytest
from forked import Server


@pytest.fixture(scope="session")
def server():
    found = Server()
    yield found
    found.close()
