"""read_npy: an array, or an OSError or a ValueError whose words suit who did not write the file."""

import numpy as np
import pytest

from dglke_frugal.npy_files import read_npy


@pytest.mark.filterwarnings("ignore")  # of NumPy, about headers that hardly are any
def test_each_damage_of_a_header_is_a_value_error(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((11, 16), np.float32))
    whole = path.read_bytes()
    for bit in range(8 * 128):
        path.write_bytes(bytes(byte ^ (1 << bit % 8) * (place == bit // 8) for place, byte in enumerate(whole)))
        try:
            read_npy(path)
        except ValueError as error:
            assert "pickle" not in str(error)


def test_other_files_are_value_errors(tmp_path):
    with open(tmp_path / "several", "wb") as file:
        np.savez(file, one=np.ones(1), two=np.ones(2))
    for name, content, message in (("empty", b"", "no .npy file"), ("text", b"hello", "no .npy file")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_npy(tmp_path / name)
    with pytest.raises(ValueError, match="several arrays"):
        read_npy(tmp_path / "several")
