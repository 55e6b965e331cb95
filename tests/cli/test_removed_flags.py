"""A removed flag or value gets one sentence that says what to use."""

import pytest

from dglke_frugal.cli.flags import given
from dglke_frugal.cli.train import main
from dglke_frugal.removed_flags import REMOVED


@pytest.mark.parametrize("written", [" ", "="])
@pytest.mark.parametrize("removed", REMOVED)
def test_the_error_names_what_to_use_instead(removed, written, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--lr", "0.1", *removed.replace(" ", written).split(), "--max_step", "3"])
    assert stopped.value.code == 2
    messages = capsys.readouterr().err
    assert (messages.count("\n") == 1 and messages.startswith("dglke_train: there is no ")
            and f": {REMOVED[removed]}" in messages)


def test_no_flag_has_the_name_of_a_removed_one():
    for removed in REMOVED:
        with pytest.raises(SystemExit):
            given(removed.split())
