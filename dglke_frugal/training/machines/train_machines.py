"""Training by several machines, from flags to a finished run, seen from one of them."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union

from ... import _native
from ...data import KnowledgeGraph
from ...data.fingerprint import Fingerprint
from ...errors import InputError, shown
from ...files import replace_file
from ...options import AUTO, OWNED_PARTITIONS, TrainConfig, check
from ...resolve import ExecutionPlan, resolve_workers
from ...store.row_bytes import FLOAT
from ...version import version
from ..checkpoint.final_state import last_state
from ..checkpoint.run_folder import create_run_folder
from ..log.tracker import MakeTracker
from ..plan.memory_plan import DISK, HOST, parts_needed, plan_memory
from ..processes.available_threads import torchrun_number
from ..run.resume import newest_run
from ..run.session import Session, graph_size, open_device
from ..step.step_config import KERNEL_MODELS
from .group import Machines, found_by_all
from .machine_run import MachineRun
from .network_plan import USABLE, NetworkPlan, network_plan
from .softmax_blocks import floats_held
from .transport import MachineError

MARK_FILE = ".machines"  # in the run's folder, while machines find out whether they share it
OWN_FLAGS = ("data_path", "num_thread", "sampler_threads")  # that may differ between machines


def train_machines(config: TrainConfig, resume: Union[Path, str, None], trackers: Sequence[MakeTracker] = (),
                   graph: Optional[KnowledgeGraph] = None) -> Path:
    """As train.train, as one of the machines that torchrun has started. Returns the run's folder.

    resume: the folder of a run, or AUTO. graph: the run's, if this machine has read it.

    Raises SystemExit after a sentence on stderr if another machine fails. Raises InputError as trainer.train, and where
    machines do not fit together.
    """
    device = replace(config.device, num_proc=max(config.device.num_proc, torchrun_number("WORLD_SIZE")))
    goes_on = resume not in (None, AUTO) and last_state(Path(resume))  # and has its rows from --init_from
    check_machines(replace(config, device=device, run=replace(config.run, init_from=None) if goes_on else config.run))
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(Machines(config.device.machine_timeout))
        if group.machine > 0:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        try:
            with found_by_all():
                config = resolve_machines(config, group, resume)
                gpu = _open_gpu(config, group)
            if resume == AUTO:
                resume = group.of_first(lambda: _newest_run(config, group.machines))
            folder = MachineSession(config, resume and Path(resume), group, gpu, trackers, graph).carry_out()
            group.barrier()
            return folder
        except MachineError as error:
            group.explain()
            sys.stderr.write(f"dglke_train: the network between the machines has failed: {error}\n")
            raise SystemExit(1) from None


def resolve_machines(config: TrainConfig, group: Machines, resume: Union[Path, str, None] = None) -> TrainConfig:
    """The configuration that all machines have. InputError, on all of them, if their flags or versions differ. resume:
    as of train_machines."""
    flags = {name: value for name, value in config.to_flags().items() if name not in OWN_FLAGS}
    _agree(group, {"version": version(), "flags": {"resume": resume and str(resume), **flags}})
    if config.batch.against_all:  # the run is that of one process, whose work the machines share out
        return resolve_workers(config)[0]
    if config.device.num_proc != 1:
        _check_number(config.device.num_proc, group.machines)
    config, _ = resolve_workers(replace(config, device=replace(config.device, num_proc=1)))
    products = group.all_of(config.device.matmul)  # a machine with another GPU may not have all of them
    device = replace(config.device, num_proc=group.machines, partition=_partition(config),
                     parallel="rows", matmul="fp32" if "fp32" in products else products[0])
    lookahead = max(2, config.store.lookahead)  # of which csrc/machines knows the steps
    config = replace(config, device=device, store=replace(config.store, lookahead=lookahead))
    check(config)
    return config


def _newest_run(config: TrainConfig, machines: int) -> Optional[str]:
    """The folder that --resume auto means, None if there is none. InputError if that run has another number of
    machines and cannot go on with this one."""
    found = newest_run(config)
    state = found and last_state(found)
    if state and not config.batch.against_all and state.config.get("neg_sample_size") != "all":
        _check_number(state.config.get("num_proc", 1), machines)
    return found and str(found)


def _check_number(of_run: int, machines: int) -> None:
    if of_run != machines:
        raise InputError(f"torchrun has started {machines} machines, and the run has {of_run} (--num_proc): start "
                         f"{of_run}, since a run goes on with the number that it began with; a new one needs no "
                         "--num_proc")


def _agree(group: Machines, facts: Dict[str, Any]) -> None:
    of_all = group.all_of(facts)
    for machine, found in enumerate(of_all):
        if found["version"] != of_all[0]["version"]:
            raise InputError(f"{group.name(machine)} has dglke_frugal {found['version']} and {group.name(0)} "
                             f"{of_all[0]['version']}; install the same version on all machines")
        flags, first = found["flags"], of_all[0]["flags"]
        other = [name for name in first if flags.get(name) != first[name]]
        if other:
            raise InputError(f"{group.name(machine)} has --{other[0]} {shown(flags.get(other[0]))} and {group.name(0)} "
                             f"{shown(first[other[0]])}; start all machines with the same flags")


def check_machines(config: TrainConfig) -> None:
    """Raise InputError for what several machines do not train."""
    device, against_all = config.device, config.batch.against_all
    if device.ranks > _native.MOST_MACHINES:
        raise InputError(f"{device.ranks} machines are more than the {_native.MOST_MACHINES} that train together; use "
                         "fewer")
    for wrong, flag, instead in (
        (len(device.gpu) > 1, "--gpu", "each machine computes on one GPU; give the number of one"),
        (device.gpu[0] >= 0 and against_all, "--gpu",
         "of several machines it does not compute a softmax over all entities, each uses its processor; leave --gpu "
         "out"),
        (device.gpu[0] >= 0 and config.model.model_name not in KERNEL_MODELS, "--gpu",
         f"of several machines it computes {', '.join(sorted(KERNEL_MODELS))}, and not {config.model.model_name}; "
         "leave --gpu out"),
        (config.model.is_custom, "--model_name", "a custom model trains on one machine; choose one of the package"),
        (config.computes_on_device and not against_all, "--optimizer",
         "several machines train with sampled negatives by row_adagrad; leave it out, or add --loss_genre Softmax "
         "--neg_sample_size all"),
        (against_all and device.partition not in (None, "range"), "--partition",
         f"of a softmax over all entities each machine has a range, and not by {device.partition}; leave it out"),
        (device.partition not in (None, *OWNED_PARTITIONS), "--partition",
         f"over machines it is hash, range or metis, and not {device.partition}"),
        (device.rel_part, "--rel_part", "over machines triples are divided by their heads; leave it out"),
        (device.parallel == "columns", "--parallel", "machines share out rows; leave --parallel columns out"),
        (config.model.normalize_entities and not against_all, "--normalize_entities",
         "with sampled negatives one machine brings rows to length 1, several do not; leave it out"),
        ((config.run.lr_patience or config.run.lr_decay_at) and not against_all, "--lr_patience and --lr_decay_at",
         "with sampled negatives several machines keep one learning rate; leave them out"),
        (config.run.init_from, "--init_from", "a run of several machines starts with rows of its own; leave it out")):
        if wrong:
            raise InputError(f"{flag}: {instead}")


def _open_gpu(config: TrainConfig, group: Machines):
    """This machine's device, None for its processor. InputError, on all machines, if one of them has no such GPU."""
    device, why_not = None, None
    try:
        device = open_device(config)
    except InputError as error:
        why_not = str(error)
    for machine, found in enumerate(group.all_of(why_not)):
        if found:
            raise InputError(f"{group.name(machine)}: {found}")
    return device


class MachineSession(Session):
    """One machine's part. All machines check that they have the same graph and see the same folder; machine 0 decides
    for all of them."""

    def __init__(self, config: TrainConfig, resume: Optional[Path], group: Machines, gpu,
                 trackers: Sequence[MakeTracker], graph: Optional[KnowledgeGraph]):
        """gpu: this machine's device, None for its processor."""
        super().__init__(config, resume, lambda *run: _run_class(config)(*run, group, gpu, trackers), graph)
        self._group, self.leads = group, group.machine == 0

    def together(self):
        return self._group.together()

    def of_first(self, value):
        return self._group.of_first(value)

    def own_config(self, config):
        return _of_one(config)

    def check_graph(self, config, graph):
        with self.together():
            own = Fingerprint.of(graph, ("valid", "test"))
        with found_by_all():
            _agree_on_data(self._group, own)

    def plan(self, config, graph):
        return ExecutionPlan(config, graph.n_entities, machine_plan(
            config, graph_size(graph), self._group.machines, self._resume), {})

    def make_folder(self, config):
        return Path(self.of_first(lambda: str(create_run_folder(config).absolute())))

    def enter(self, folder):
        with found_by_all():
            _check_shared(self._group, folder)
        self._group.advice = lambda: advice(folder)

    def network_lines(self, config, graph, threads):
        carried = min(self._group.all_of(self._group.bytes_per_second()))
        return machines_lines(self._group, carried, network_plan(
            config, graph_size(graph), self._group.machines, carried / USABLE, threads))


def _run_class(config: TrainConfig) -> type:
    if not config.batch.against_all:
        return MachineRun
    from .softmax_run import MachineSoftmaxRun  # here, because it takes torch's import time

    return MachineSoftmaxRun


def _partition(config: TrainConfig) -> str:
    return config.device.partition or "hash"


def _of_one(config: TrainConfig) -> TrainConfig:
    """The configuration of a run of one machine alone, by which threads and memory of each are chosen."""
    return replace(config, device=replace(config.device, num_proc=1, gpu=(-1,), partition=None, negatives="global"))


def machine_plan(config: TrainConfig, size, machines: int, folder: Optional[Path] = None):
    """The memory plan of one of so many machines: its share of the entities, and all of the rest; of the disk that
    they share, all that they write."""
    one, own = _of_one(config), replace(size, entities=-(-size.entities // machines))
    if config.batch.against_all:
        entities = min(size.entities, config.batch.most_entities)
        blocks = {"blocks between machines": FLOAT * floats_held(machines, entities, min(entities, own.entities),
                                                                 config.model.dims.entity)}
    else:
        one, blocks = replace(one, device=replace(one.device, partition=_partition(config))), {}
    parts = parts_needed(one, own)
    return plan_memory(one, own, folder, {**parts, HOST: {**parts[HOST], **blocks},
                                          DISK: parts_needed(one, size)[DISK]})


def machines_lines(group: Machines, carried: float, plan: NetworkPlan) -> List[str]:
    """Who trains, and whether that is of use. carried: bytes a second that the network was measured to carry."""
    lines = [f"{group.machines} machines train together, each with the rows that it owns: {', '.join(group.hosts)}",
             f"the network carries {8 * carried / 1e9:.2f} Gb/s from each machine; a step sends about "
             f"{plan.bytes_per_step / 1e6:.3f} MB"]
    if plan.over_one < 1:
        lines.append(f"on this network one machine alone would train about {1 / plan.over_one:.1f} times as fast, if "
                     "it has the memory")
    return lines


def _agree_on_data(group: Machines, own: Fingerprint) -> None:
    of_all = [Fingerprint.of_mapping(fact) for fact in group.all_of(own.to_dict())]
    for machine, found in enumerate(of_all):
        if found != of_all[0]:
            changed = [name for name, value in found.to_dict().items() if value != of_all[0].to_dict()[name]]
            what = changed[0].replace("_checksum", "_triples").replace("_", " ")
            raise InputError(f"{group.name(machine)} has other data than {group.name(0)}: their {what} differ; give "
                             "all machines the same files with --data_path")


def _check_shared(group: Machines, folder: Path) -> None:
    """All machines must see the run's folder, and write to files that machine 0 makes there. One may have a folder of
    that name on a disk of its own."""
    path = folder / MARK_FILE
    mark = group.of_first(lambda: _marked(path))
    of_all = group.all_of(_why_not_written(path, mark))
    if group.machine == 0:
        path.unlink()
    for machine, why_not in enumerate(of_all):
        if why_not is not None:
            raise InputError(f"{group.name(machine)} {why_not} {folder}, which {group.name(0)} has made; give a "
                             "--save_path on a disk that all machines share and may write to")


def _marked(path: Path) -> str:
    """Write a file that no other disk has. Returns what it holds."""
    mark = uuid.uuid4().hex
    with replace_file(path, "w") as file:
        file.write(mark)
    return mark


def _why_not_written(path: Path, mark: str) -> Optional[str]:
    """Why this machine cannot write to a file in which another has written the mark, as the verb of a sentence; None if
    it can."""
    try:
        with open(path, "r+b") as file:
            return None if file.read() == mark.encode() else "does not see"
    except FileNotFoundError:
        return "does not see"
    except OSError as error:
        return f"cannot write ({error.strerror}) to"


def advice(folder: Path) -> str:
    """What to do after a machine has failed, as the end of a sentence."""
    try:
        left = last_state(folder)
    except InputError:
        left = None
    if left is None:
        return "there is no checkpoint yet to go on from; --checkpoint_interval writes them"
    return (f"go on from the checkpoint of step {left.step} with --resume {shlex.quote(str(folder))}, or start "
            "torchrun with --max-restarts and --resume auto")
