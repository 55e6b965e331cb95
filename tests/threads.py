"""Threads of tests: how many compute, and what several do at the same time."""
import contextlib
import threading

import torch

from dglke_frugal import _native


@contextlib.contextmanager
def threads_as_before():
    """Afterwards torch and our kernels compute with as many threads as before."""
    torchs, ours = torch.get_num_threads(), _native.num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(torchs)
        _native.set_num_threads(ours)


def compute_with(count):
    """Torch and our kernels compute with so many threads."""
    torch.set_num_threads(count)
    _native.set_num_threads(count)


def at_once(work, count, tell_others=lambda: None):
    """What work(number) returns for each number below count, in a thread each. Raises the first error. tell_others: is
    called in a thread that has failed."""
    results, errors = [None] * count, []

    def run(number):
        try:
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)
            tell_others()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    if errors:
        raise errors[0]
    return results
