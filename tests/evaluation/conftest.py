import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # ranking_oracle.py and random_models.py


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    """The tables of these tests are small; threads would only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
