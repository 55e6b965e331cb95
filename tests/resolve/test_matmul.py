"""What --matmul auto, the default, stands for."""
import pytest

from dglke_frugal import _native
from dglke_frugal.options import TrainConfig
from dglke_frugal.resolve import resolve_workers

GPUS = [{"capability": (9, 0)}, {"capability": (8, 0)}, {"capability": (7, 5)}]


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setattr(_native, "cuda_devices", lambda with_free_memory: (GPUS, ""))


@pytest.mark.parametrize("flags, expected", [
    ({"gpu": [0]}, "tf32x3"), ({"gpu": [1]}, "tf32x3"), ({"gpu": [2]}, "fp32"),
    ({"gpu": [0, 1]}, "tf32x3"), ({"gpu": [0, 2]}, "fp32"),
    ({"gpu": [3]}, "fp32"), ({}, "fp32"), ({"gpu": [0], "matmul": "fp32"}, "fp32"), ({"matmul": "tf32"}, "tf32"),
    ({"gpu": [0], "model_name": "SimplE"}, "tf32x3"), ({"gpu": [0], "model_name": "ComplEx"}, "tf32x3"),
    ({"gpu": [0], "model_name": "TransE_l1"}, "fp32"), ({"gpu": [0], "model_name": "RotatE"}, "fp32"),
    ({"gpu": [0], "model_name": "RESCAL"}, "fp32"), ({"gpu": [0], "model_name": "TransR"}, "fp32"),
    ({"gpu": [0], "model_name": "my.models:Own"}, "fp32"), ({"gpu": [0], "neg_sample_size": "all"}, "fp32")], ids=str)
def test_products_go_to_tensor_cores_where_there_are_both(gpus, flags, expected):
    config = TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 400, **flags})
    resolved, reasons = resolve_workers(config)
    assert resolved.device.matmul == expected and ("matmul" in reasons) == ("matmul" not in flags)
