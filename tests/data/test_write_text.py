"""Integers become the text that Python would write."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dglke_frugal.data import write_text

NUMBERS = st.integers(0, 2**63 - 1) | st.integers(0, 11)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40), st.sampled_from(["", "e", "rel "]))
def test_lines_are_those_that_python_writes(rows, prefix):
    columns = np.array(rows, np.int64).reshape(-1, 2).T
    assert write_text.lines(columns, (prefix, "")).decode() == "".join(f"{prefix}{a}\t{b}\n" for a, b in rows)


@pytest.mark.parametrize("count", [0, 1, 5, 6])
def test_pieces_join(count, monkeypatch):
    monkeypatch.setattr(write_text, "PIECE", 5)
    column = np.arange(count, dtype=np.int32) * 7
    assert write_text.lines([column]).decode() == "".join(f"{value}\n" for value in column)
