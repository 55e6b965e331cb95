"""A test whose reference data is not there is skipped, or fails in CI, with one sentence that names the path."""
import pytest

from conftest import Reference


@pytest.mark.parametrize("ci, ending", [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_a_path_that_is_not_there_ends_the_test(tmp_path, monkeypatch, ci, ending):
    monkeypatch.setenv("CI", ci)
    (tmp_path / "data" / "FB15k").mkdir(parents=True)
    graph = Reference(tmp_path) / "data" / "FB15k"
    with pytest.raises(ending) as ended:
        graph / "train.txt"
    assert str(ended.value) == (f"needs the reference data at {tmp_path}/data/FB15k/train.txt "
                                "(set DGLKE_FRUGAL_REFERENCE to the folder of golden and data)")
