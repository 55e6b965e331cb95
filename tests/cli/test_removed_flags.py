"""A removed flag or value gets one sentence that says what to use."""

import pytest

from dglke_frugal.cli.flags import given
from dglke_frugal.cli.train import main
from dglke_frugal.removed_flags import REMOVED


@pytest.mark.parametrize("written", [" ", "="])
@pytest.mark.parametrize("removed", REMOVED)
def test_the_error_names_what_to_use_instead(removed, written, refused):
    with refused("^dglke_train: there is no ", f": {REMOVED[removed]}"):
        main(["--lr", "0.1", *removed.replace(" ", written).split(), "--max_step", "3"])


def test_no_flag_has_the_name_of_a_removed_one():
    for removed in REMOVED:
        with pytest.raises(SystemExit):
            given(removed.split())
