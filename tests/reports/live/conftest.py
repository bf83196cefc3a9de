"""A server of runs in a thread of its own."""

import threading
from contextlib import contextmanager

import pytest

from troth.reports.live import Server


@contextmanager
def _serving(root, **given):
    with Server(root, port=0, **given) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def serving():
    """Serve a folder for the length of a `with` block."""
    return _serving
