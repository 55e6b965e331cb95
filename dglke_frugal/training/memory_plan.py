"""How much memory a run needs, part by part, against what there is: said before anything is allocated."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional

from ..config import TrainConfig
from ..errors import InputError
from ..models import find_model

FLOAT = 4
LINE_FLOATS = 32  # rows are padded to whole 128-byte lines, with the optimizer state in the padding
INTERPRETER_BYTES = 300 << 20  # Python, numpy, scipy and the extension themselves


@dataclass(frozen=True)
class GraphSize:
    """What of a graph decides how much memory a run needs. triples: of all splits; id_bytes: of one id in memory."""

    entities: int
    relations: int
    triples: int
    id_bytes: int = 4
    weighted: bool = False


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes by part, on the host and on each device, and what is available; None where that is not known."""

    host: Dict[str, int]
    device: Dict[str, int]
    host_available: Optional[int]
    device_available: Optional[int]

    @property
    def host_bytes(self) -> int:
        return sum(self.host.values())

    @property
    def device_bytes(self) -> int:
        return sum(self.device.values())

    def check(self) -> None:
        """Raise InputError, with what would fit, if the run needs more than there is."""
        for where, need, available, largest in (
            ("host", self.host_bytes, self.host_available, self.host.get("entity table", 0)),
            ("device", self.device_bytes, self.device_available, self.device.get("entity cache", 0)),
        ):
            if available is None or need <= available:
                continue
            room = available - (need - largest)
            fits = f"a table of {room / largest:.0%} of that size would fit" if largest and room > 0 else "nothing of it would fit"
            remedy = "reduce --hidden_dim or use a machine with more memory" if where == "host" else "reduce --cache_size"
            raise InputError(f"the run needs {_gib(need)} of {where} memory, but {_gib(available)} are free; {fits}: {remedy}")

    def to_dict(self) -> dict:
        """The plan as plain data."""
        return {**dataclasses.asdict(self), "host_bytes": self.host_bytes, "device_bytes": self.device_bytes}

    def lines(self) -> list[str]:
        """The plan as a table for people."""
        lines = []
        for where, parts, available in (("host", self.host, self.host_available), ("device", self.device, self.device_available)):
            if not parts:
                continue
            lines += [f"{where:<7}{name:<28}{_gib(size):>12}" for name, size in parts.items()]
            free = "unknown" if available is None else _gib(available)
            lines.append(f"{where:<7}{'in all':<28}{_gib(sum(parts.values())):>12}   of {free} free")
        return lines


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**27 else f"{size / 2**20:.1f} MiB"


def row_bytes(dim: int) -> int:
    """Bytes of a host row: the embedding, its state, padding."""
    return -(-(dim + 1) // LINE_FLOATS) * LINE_FLOATS * FLOAT


def plan_memory(config: TrainConfig, graph: GraphSize) -> MemoryPlan:
    """What training `config` on a graph of this size takes on this machine."""
    model = find_model(config.model.model_name)
    dims = model.dims(config.model.hidden_dim, config.model.double_ent, config.model.double_rel)
    batch, negatives = config.batch.batch_size, config.batch.neg_sample_size
    sampled = max(batch, negatives)
    host = {
        "entity table": graph.entities * row_bytes(dims.entity),
        "relation table": graph.relations * row_bytes(dims.relation),
    }
    if dims.projection:
        host["projection table"] = graph.relations * row_bytes(dims.projection)
    host["triples"] = graph.triples * (3 * graph.id_bytes + (FLOAT if graph.weighted else 0))
    if config.evaluation.valid or config.evaluation.test:
        host["index of known triples"] = 2 * graph.triples * (8 + graph.id_bytes)
    rows = 3 * batch + sampled  # heads, tails and relations, and the negatives
    gradient_rows = (2 * batch + 2 * sampled) * dims.entity + batch * (dims.relation + (dims.projection or 0))
    host["step buffers"] = FLOAT * (2 * gradient_rows + batch * (negatives + (batch if config.batch.neg_deg_sample else 0)))
    host["batches ahead"] = (config.store.lookahead + 16) * rows * 40
    host["interpreter and libraries"] = INTERPRETER_BYTES
    device: Dict[str, int] = {}
    slots = config.store.cache_slots(graph.entities, row_bytes(dims.entity))
    if config.uses_engine:
        host["update engine"] = config.store.lookahead * rows * 64 + 8 * rows * row_bytes(dims.entity) + graph.entities
        (device if config.device.gpu[0] >= 0 else host)["entity cache"] = slots * row_bytes(dims.entity)
    return MemoryPlan(host, device, available_host_bytes(), _available_device_bytes(config.device.gpu[0]))


def available_host_bytes() -> Optional[int]:
    """Bytes that this process may still take: the kernel's estimate, or less where a control group limits it."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    except OSError:
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        if limit != "max":
            found.append(int(limit) - used)
    except (OSError, ValueError):
        pass
    return min(found) if found else None


def _available_device_bytes(gpu: int) -> Optional[int]:
    if gpu < 0:
        return None
    import torch

    return torch.cuda.mem_get_info(gpu)[0] if torch.cuda.is_available() else None
