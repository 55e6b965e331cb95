"""Training, by this process or by several."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Sequence, Union

from ..data import KnowledgeGraph
from ..errors import shortages_as_input_errors
from ..options import AUTO, TrainConfig
from ..resolve import resolve_workers
from .full_softmax.config import check_full_softmax
from .log.tracker import MakeTracker
from .machines.group import several_machines
from .processes.available_threads import check_threads, threads_of_run, torchrun_number
from .run.full_softmax_run import FullSoftmaxRun
from .run.resume import newest_run
from .run.run import TrainingRun
from .run.session import Session, open_device, thread_count

if TYPE_CHECKING:
    from ..store.device.device import Device


def train(config: TrainConfig, resume: Union[Path, str, None] = None,
          device: Optional[Device] = None,
          trackers: Sequence[MakeTracker] = (), graph: Optional[KnowledgeGraph] = None) -> Path:
    """Train as the configuration says, or go on with the run in the folder `resume`, or with AUTO with the newest one
    of this model and data set, if there is one. Returns the run's folder.

    device: a store.device.Device to compute on, alone, instead of the one that the configuration names; for tests.
    trackers: make trackers in addition to the ones that the configuration names.
    graph: the one that the configuration names, if it has been read.

    Raises InputError for a graph that cannot be read, memory, threads, open files or disk that do not suffice, flags
    that the native trainer does not have, or a checkpoint of another configuration; SystemExit with a shell's exit code
    if a signal ended the run after a checkpoint was written.
    """
    with shortages_as_input_errors():
        if config.model.is_custom:
            from .run.custom_model import check_custom_model  # here, because it takes torch's import time

            check_custom_model(config)
        check_full_softmax(config)
        if several_machines():
            from .machines.train_machines import train_machines

            return train_machines(config, resume, trackers, graph)
        if resume == AUTO:
            resume = newest_run(config)
        check_threads(threads_of_run(config, thread_count(config)))
        if several_ranks(config):
            from .parallel.train_ranks import train_ranks  # here, because most runs are of one process

            return train_ranks(config, resume, trackers, graph)
        config, _ = resolve_workers(config)
        run_class = FullSoftmaxRun if config.batch.against_all else TrainingRun
        make_run = partial(run_class, device=device or open_device(config), trackers=trackers)
        return Session(config, resume, make_run, graph).carry_out()


def several_ranks(config: TrainConfig) -> bool:
    """Whether this process is to be one of several that train together."""
    return config.device.ranks > 1 or torchrun_number("WORLD_SIZE", 1) > 1
