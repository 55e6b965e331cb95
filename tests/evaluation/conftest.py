import pytest


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    """The tables of these tests are small; threads would only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
