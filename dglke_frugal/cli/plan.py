"""`dglke_frugal plan`: how much memory and disk a training run would need, and whether that is there."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from ..errors import InputError
from ..flag_values import network_speed
from ..options import DEFAULT_CACHE_RATIO, TrainConfig
from ..presets.auto import is_auto
from . import flags
from .errors import reports_input_errors
from .tool_flags import messages_apart_from
from .train import configuration

if TYPE_CHECKING:  # imported where it is needed, since it takes its time
    from ..resolve import ExecutionPlan

# Entities, relations, triples, and those of the larger one of validation and test set, of the data sets with names.
KNOWN_SIZES = {"FB15k": (14_951, 1_345, 592_213, 59_071),
               "FB15k-237": (14_541, 237, 310_116, 20_466),
               "wn18": (40_943, 18, 151_442, 5_000),
               "wn18rr": (40_943, 11, 93_003, 3_134),
               "Freebase": (86_054_151, 14_824, 338_586_276, 16_929_318),
               "wikikg2": (2_500_604, 535, 17_137_181, 598_543),
               "biokg": (93_773, 51, 5_088_434, 162_886),
               "wikikg90M": (87_143_637, 1_315, 504_220_369, 0),
               "wikikg90Mv2": (91_230_610, 1_387, 601_062_811, 0)}


def own_flags() -> argparse.ArgumentParser:
    """Flags of the plan; all others are dglke_train's."""
    parser = flags.Parser(prog="dglke_frugal plan", add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("plan")
    group.add_argument("--entities", type=int, help="entities of a graph that need not exist")
    group.add_argument("--relations", type=int, default=1000, help="relations of that graph (%(default)s)")
    group.add_argument("--triples", type=int, help="triples of that graph, all splits together (10 per entity)")
    group.add_argument("--nnodes", type=int, default=1, help="machines that train together (%(default)s)")
    group.add_argument("--network", type=network_speed, default="25Gb", metavar="SPEED",
                       help="speed of the network between them, such as 25Gb (%(default)s)")
    group.add_argument("--one_machine", type=float, metavar="RATE",
                       help="triples/s (kvsall: queries/s) of one machine alone (by the cores of this one)")
    group.add_argument("--json", action="store_true", help="print JSON, with bytes as numbers")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. Prints the plan; exit code 2 and a sentence if the run does not fit."""
    if "-h" in argv or "--help" in argv:
        argparse.ArgumentParser(prog="dglke_frugal plan", parents=[own_flags()],
                                description="Say how much memory and disk a run of dglke_train needs.",
                                epilog="All other flags are dglke_train's: dglke_train --help.").print_help()
        return
    own, rest = own_flags().parse_known_args(argv)
    if own.entities is not None and is_auto(flags.given(rest).get("preset")):
        raise InputError("--preset auto goes by a graph that is there, and --entities are of none; leave one of the "
                         "two out")
    with messages_apart_from("/dev/stdout" if own.json else None):
        of_size = [] if own.entities is None else ["--dataset", "planned"]  # which need not be in --data_path
        _, config = configuration([*of_size, *rest])
    if own.nnodes != 1:
        _plan_machines(own, config)
        return
    from ..resolve import resolve, resolve_workers

    config, reasons = resolve_workers(config)
    size, config = _sized(own, config)
    plan = resolve(config, size, reasons=reasons)
    assumed = _assumed(plan)
    if own.json:
        text = json.dumps({**plan.memory.to_dict(), "execution": plan.to_dict(), "assumed": assumed}, indent=2)
    else:
        text = "\n".join([*plan.lines(), *plan.memory.lines(), *filter(None, [assumed])])
    print(text, flush=True)
    plan.memory.check()


def _plan_machines(own, config: TrainConfig) -> None:
    """The plan of one of several machines, and what their network does to their speed."""
    import os
    from dataclasses import replace

    from .. import _native
    from ..training.machines.network_plan import network_plan
    from ..training.machines.train_machines import check_machines, machine_plan

    if not 2 <= own.nnodes <= _native.MOST_MACHINES:
        raise InputError(f"--nnodes is {own.nnodes}; give 1 to {_native.MOST_MACHINES} machines")
    if own.one_machine is not None and not 1 <= own.one_machine <= 1e12:
        raise InputError(f"--one_machine is {own.one_machine}; give a number of triples a second, from 1 to 1e12")
    check_machines(config)
    if not config.batch.against_all:
        config = replace(config, device=replace(config.device, num_proc=own.nnodes, parallel="rows"))
    size, config = _sized(own, config)
    memory = machine_plan(config, size, own.nnodes)
    network = network_plan(config, size, own.nnodes, own.network, len(os.sched_getaffinity(0)), own.one_machine)
    if own.json:
        text = json.dumps({**memory.to_dict(), "network": network.to_dict()}, indent=2)
    else:
        text = "\n".join([f"each of {own.nnodes} machines, and the disk that they share:", *memory.lines(),
                          *network.lines()])
    print(text, flush=True)
    memory.check()


def _assumed(plan: ExecutionPlan) -> Optional[str]:
    """A sentence on what is not known of a GPU, if it cannot be asked; None if it can, or there is none in the plan."""
    gpu = plan.config.device.gpu[0]
    if gpu < 0 or plan.memory.available["device"] is not None:
        return None
    cache = "" if "cache" not in plan.reasons else (
        f", and a cache of {DEFAULT_CACHE_RATIO:.0%} of the entities is assumed, which --cache_ratio and --cache_size "
        "set")
    return f"GPU {gpu} cannot be asked here how much memory it has: nothing says whether it has as much{cache}"


def _sized(own, config: TrainConfig):
    """(the size of the graph, the configuration with its lengths in steps of that graph)."""
    from ..training.run.epochs import in_steps

    size = _size(own, config)
    return size, in_steps(config, size.training or size.triples)


def _size(own, config: TrainConfig):
    from ..training.plan.memory_plan import GraphSize

    if own.entities is not None:
        triples = 10 * own.entities if own.triples is None else own.triples
        if min(own.entities, own.relations, triples) < 1:
            raise InputError("--entities, --relations and --triples must be at least 1")
        if max(own.entities, own.relations, own.triples or 1) >= 2**63:
            raise InputError("--entities, --relations and --triples must be below 2**63")
        return GraphSize(own.entities, own.relations, triples, triples // 10)
    graph = config.graph
    if (graph.format == "built_in"
        and graph.dataset in KNOWN_SIZES
        and not (Path(graph.data_path) / graph.dataset).exists()):
        return GraphSize(*KNOWN_SIZES[graph.dataset])  # not downloaded just to be counted
    from ..training.run.session import graph_size, load

    return graph_size(load(config))
