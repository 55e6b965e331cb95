"""What each process of test_distributed.py runs, with torchrun's environment: prints its results as a line of JSON."""
import copy
import hashlib
import json
import os
import sys

from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from devices import make_device  # noqa: E402

from dglke_frugal import _native, optim
from dglke_frugal.embedding import CacheConfig, DenseStep, Embedding, Lookahead, Uniform
from dglke_frugal.errors import InputError
from dglke_frugal.store.device.peer_buffer import PeerBuffer

ROWS, DIM, STEPS = 50, 4, 12


class Model(torch.nn.Module):
    def __init__(self, table, holds_table):
        super().__init__()
        self.layer = torch.nn.Linear(3 * DIM, 1)
        self.table = table if holds_table else None

    def forward(self, given):
        return self.layer((given if self.table is None else self.table(given)).flatten(1)).squeeze(1)


def device_of(kind, rank):
    if kind == "gpus":
        torch.cuda.set_device(rank)
        return f"cuda:{rank}"
    return make_device(kind) if kind else "cpu"


def train(settings, holds_table, ahead, device=None, stops=STEPS):
    """ahead: lookups that are prefetched, of all processes or of each. device: a kind of device instead of the CPU, or
    "gpus", of which each process has its own for the table. stops: the step at which the loop over batches is left, and
    begun anew behind it."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ahead = ahead[rank] if isinstance(ahead, list) else ahead
    optimizer = optim.Adam(0.05, clip=1.0)
    table = Embedding.distributed(ROWS, DIM, optimizer, max_rows=24, cache=CacheConfig(**settings),
                                  init=Uniform(-1, 1), device=device_of(device, rank))
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    torch.manual_seed(rank)  # DistributedDataParallel begins with the layers of the first process
    model = DistributedDataParallel(Model(table, holds_table))
    dense = torch.optim.SGD(model.module.layer.parameters(), 0.1)
    random = torch.Generator().manual_seed(7)
    batches = [torch.randint(ROWS, (8, 3), generator=random) for _ in range(STEPS * ranks)][rank::ranks]
    for first, last in ((0, stops), (stops, STEPS)):
        to_come = batches[first:]
        for number, ids in enumerate(Lookahead(to_come, lambda ids: {table: ids}, ahead) if ahead else to_come, first):
            if number == last:
                break
            score = model(ids if holds_table else table(ids).cpu())
            dense.zero_grad()
            (torch.nn.functional.softplus(score).mean() / ranks).backward()
            dense.step()
            schedule.step()
    digest = hashlib.sha256()
    for values in (table.weight, table.state_dict()["optimizer_state"], *model.module.layer.parameters()):
        digest.update(values.detach().contiguous().numpy().tobytes())
    table.close()
    return digest.hexdigest()


def dense():
    """Layers of all processes by DenseStep, and of one process that has all batches: how far they are apart."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    random = torch.Generator().manual_seed(3)
    batches = [(torch.randn(6, 4, generator=random), torch.randn(6, generator=random)) for _ in range(5 * ranks)]
    ends = []
    for of, group in ((ranks, dist.group.WORLD), (1, None)):
        torch.manual_seed(rank if group else 0)  # they begin with those of the first process
        layer, places = torch.nn.Linear(4, 1), torch.nn.Embedding(6, 4, sparse=True)
        parameters = [*layer.parameters(), *places.parameters(), torch.nn.Parameter(torch.ones(2))]  # one without use
        step = DenseStep(lambda rows, y: (layer(rows + places(torch.arange(len(rows)) % 6)).squeeze(1) - y).square()
                         .mean() / of, torch.optim.SGD(parameters, 0.1), group=group)
        for first in range(0, len(batches), ranks):
            own = batches[first : first + ranks]
            own = own[rank : rank + 1] if group else own
            step(torch.cat([x for x, _ in own]), torch.cat([y for _, y in own]))
        ends.append(torch.cat([each.detach().flatten() for each in parameters]))
    return {"digest": hashlib.sha256(ends[0].numpy().tobytes()).hexdigest(),
            "apart": (ends[0] - ends[1]).abs().max().item()}


def of_page(lines):
    """Table and layers by the step of a page, and by one process that has all batches: how far they are apart."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = torch.nn.Linear(DIM, 1)
    alone = copy.deepcopy(layers)
    model, loss_of = DistributedDataParallel(layers), torch.nn.functional.softplus
    table = Embedding.distributed(ROWS, DIM, optim.SGD(0.5), max_rows=24)
    plain = Embedding(ROWS, DIM, optim.SGD(0.5))
    for step in range(STEPS):
        every = torch.randint(ROWS, (ranks, 8), generator=torch.Generator().manual_seed(step))
        layers.zero_grad()
        exec(lines, {"table": table, "model": model, "ids": every[rank], "dist": dist,
                     "loss_of": lambda scores: loss_of(scores).mean()})
        alone.zero_grad()
        loss_of(alone(plain(every))).mean().backward()
        for each in (*layers.parameters(), *alone.parameters()):
            each.data -= 0.5 * each.grad
    pairs = [(table.weight, plain.weight), *zip(layers.parameters(), alone.parameters())]
    apart = max((ours - theirs).abs().max().item() for ours, theirs in pairs)
    table.close()
    return apart


def state_of_one(goes_on):
    """The first process alone asks for the rows, as scripts do that save them there; the others go on or end."""
    table = Embedding.distributed(ROWS, DIM, optim.SGD(0.1), max_rows=5)
    for _ in range(3):
        table(torch.arange(5)).sum().backward()
    try:
        if dist.get_rank() == 0:
            table.state_dict()
        elif goes_on:
            table(torch.arange(5)).sum().backward()
            table(torch.arange(5)).sum().backward()
        return "nothing was reported"
    except RuntimeError as error:
        return str(error)


def left_alone(kind):
    """Another process ends in the middle of training."""
    rank = dist.get_rank()
    table = Embedding.distributed(ROWS, DIM, optim.SGD(0.1), max_rows=5, cache=CacheConfig(flush="direct"),
                                  device=device_of(kind, rank))
    try:
        for step in range(1000):
            if rank == 1 and step == 3:
                os._exit(0)
            table(torch.arange(5)).sum().backward()
        return "nothing was reported"
    except RuntimeError as error:
        print(json.dumps(str(error)), flush=True)
        os._exit(0)  # the group lacks a member


def out_of_reach():
    """The second process does not reach the memory of the first."""
    def refuse(self, handle):
        raise _native.DeviceError("cudaIpcOpenMemHandle failed: invalid argument; --peer off does without")

    if dist.get_rank() == 1:
        PeerBuffer.open = refuse
    table = Embedding.distributed(ROWS, DIM, optim.SGD(0.1), max_rows=5, cache=CacheConfig(flush="direct"),
                                  device=make_device("cpu"))
    try:
        for _ in range(3):  # a device hears of it late
            table(torch.arange(5)).sum().backward()
        return "nothing was reported"
    except RuntimeError as error:
        return str(error)


def given_otherwise():
    """What each process is told where one gives something else than the others."""
    rank, told = dist.get_rank(), []
    for rows, optimizer, padding in ((ROWS + rank, optim.SGD(0.1), None), (ROWS, optim.SGD(0.1 + rank), None),
                                     (ROWS, (optim.SGD, optim.Adam)[rank](0.1), None), (ROWS, optim.SGD(0.1), rank)):
        try:
            Embedding.distributed(rows, DIM, optimizer, max_rows=5, padding_idx=padding)
        except ValueError as error:
            told.append(str(error))
    return told


def main(what, *arguments):
    dist.init_process_group("gloo")
    try:
        if what == "train":
            result = [train(*each) for each in arguments[0]]
        elif what == "dense":
            result = dense()
        elif what == "page":
            result = of_page(*arguments)
        elif what == "left alone":
            result = left_alone(*arguments)
        elif what == "out of reach":
            result = out_of_reach()
        elif what == "state of one":
            result = state_of_one(*arguments)
        elif what == "given otherwise":
            result = given_otherwise()
        else:
            Embedding.distributed(10**12, 512, optim.SGD(0.1), max_rows=5)
    except InputError as error:
        result = str(error)
    print(json.dumps(result), flush=True)
    dist.destroy_process_group()  # whose threads may end the process with an abort where they outlive it


if __name__ == "__main__":
    main(sys.argv[1], *map(json.loads, sys.argv[2:]))
