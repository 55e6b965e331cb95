"""Lines of code fit a screen."""
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "csrc", "datasets", "dglke_frugal", "examples", "packaging", "recipes", "tests")
ENDINGS = (".py", ".pyi", ".cpp", ".h", ".cu", ".cuh")
COLUMNS = 120


@pytest.mark.parametrize("folder", FOLDERS)
def test_lines_have_at_most_120_columns(folder):
    code = [path for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS]
    assert code
    assert [f"{path.relative_to(ROOT)}:{number}" for path in sorted(code)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if len(line) > COLUMNS] == []
