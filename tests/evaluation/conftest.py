import pytest


@pytest.fixture(autouse=True)
def small_tables(one_torch_thread):
    """All of these tests."""
