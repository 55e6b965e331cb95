"""Training by several ranks, seen from rank 0 and from the processes of the others."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Optional, Sequence

from ... import _native
from ..._native import EngineError
from ...data import KnowledgeGraph
from ...divergence import DIVERGED
from ...errors import DeviceLost, InputError, shortages_as_input_errors
from ...options import TrainConfig
from ...resolve import resolve_workers
from ..log.tracker import MakeTracker
from ..plan.parallel import slow_processes
from ..processes.launch import find_processes
from ..processes.process_group import Worker, RankError
from ..run.session import load, open_device, run_session, thread_count
from .rank_run import DeviceFailure, WorkerRun, Rank0Run, sentence_of

ORPHAN_SECONDS = 2.0  # that a rank may outlive rank 0


def train_ranks(config: TrainConfig, resume: Optional[Path], trackers: Sequence[MakeTracker] = (),
                graph: Optional[KnowledgeGraph] = None) -> Path:
    """As train.train, by several ranks: --num_proc of them, one for each GPU, or those that torchrun has started.

    Raises SystemExit, after a sentence on stderr, if a rank fails or ends: with code 2 for an InputError of one, as one
    process has, else 1. Raises InputError if the training has diverged.
    """
    processes = find_processes(config)
    config = replace(config, device=replace(config.device, num_proc=processes.ranks))
    try:
        if processes.rank > 0:
            raise SystemExit(follow(processes.connect(), processes.rank))
        config, reasons = resolve_workers(config)
        if config.device.gpu[0] < 0:
            print(slow_processes(config.device.ranks), flush=True)
        elif "parallel" in reasons:
            print(f"--parallel {config.device.parallel}: {reasons['parallel']}", flush=True)
        run_class, _ = run_classes(config)
        device = open_device(config)
        return run_session(config, resume, lambda *arguments: run_class(*arguments, processes, device, trackers), graph)
    except (EngineError, RankError, DeviceFailure) as error:
        if DIVERGED in str(error):  # which is no fault of another rank, whichever found it first
            raise InputError(str(error)) from None
        sys.stderr.write(f"dglke_train: {processes.explain(str(error))}\n")
        raise (DeviceLost(1) if isinstance(error, DeviceFailure) else SystemExit(processes.exit_code())) from None
    finally:
        processes.close()


def run_classes(config: TrainConfig):
    """The runs of rank 0 and of the others."""
    if config.device.parallel != "columns":
        return Rank0Run, WorkerRun
    from .column_run import ColumnWorkerRun, ColumnRank0Run  # here, because it takes torch's import time

    return ColumnRank0Run, ColumnWorkerRun


def follow(connection: Connection, rank: int) -> int:
    """A whole run as rank `rank` > 0. Returns the exit code of the process."""
    group = Worker(connection, rank)
    try:
        with shortages_as_input_errors():
            hello = group.hello()
            _end_with(hello["pid"])
            config = TrainConfig.from_flags(hello["flags"])
            _native.set_num_threads(thread_count(config))
            _, run_class = run_classes(config)
            with run_class(config, load(config), group, hello) as run:
                group.ready()
                run.train()
                run.finish()
        return 0
    except SystemExit as stopped:
        return int(stopped.code)
    except (EngineError, RankError):
        return 1  # another rank has failed, and says so
    except BaseException as error:
        if not isinstance(error, (InputError, DeviceFailure, KeyboardInterrupt)):
            traceback.print_exc()
        group.tell_error(sentence_of(rank, error))
        if isinstance(error, DeviceFailure):
            DeviceLost(1).end_process()
        return 2 if isinstance(error, InputError) else 1


def _end_with(parent: int) -> None:
    """End this process soon after rank 0's, whatever it is doing then."""
    process = os.pidfd_open(parent)

    def watch():
        select.select([process], [], [])
        time.sleep(ORPHAN_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
