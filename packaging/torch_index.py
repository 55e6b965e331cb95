"""Prints the options by which pip finds PyTorch for CPUs, a tenth of the size of PyPI's wheel, which is for CUDA.

Prints nothing where a GPU is seen, or where PyTorch's own index cannot be reached.
"""
import shutil
import subprocess
import urllib.request
from pathlib import Path

INDEX = "https://download.pytorch.org/whl/cpu"


def sees_gpu():
    if shutil.which("nvidia-smi"):
        return subprocess.call(["nvidia-smi", "-L"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    gpus = Path("/proc/driver/nvidia/gpus")
    return gpus.is_dir() and any(gpus.iterdir())


def is_reachable():
    try:
        with urllib.request.urlopen(INDEX + "/torch/", timeout=5):
            return True
    except (OSError, ValueError):
        return False


if __name__ == "__main__" and not sees_gpu() and is_reachable():
    print("--extra-index-url", INDEX)
