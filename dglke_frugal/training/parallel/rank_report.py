"""What each rank did and waited for, at the end of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Dict, Mapping

from ...store import EmbeddingStore
from ..log.counters import FLOAT_BYTES, NANO


@dataclass(frozen=True)
class RankReport:
    """Numbers of one rank over the steps of this part of the run, all tables together.

    seconds: of training, pauses left out. stall_seconds: waiting for rows, for a plan, or for room in staging; of it
    peer_seconds for the slowest rank (until all had registered the step or finished the one before). hits, misses: rows
    found in the rank's cache, and others. bytes_read: of the others that were read from host memory, and not where they
    were on their way there. bytes_sent: values, write-backs and gradients.
    """

    rank: int
    steps: int
    seconds: float
    stall_seconds: float
    peer_seconds: float
    hits: int
    misses: int
    values: int
    write_backs: int
    gradients: int
    bytes_read: int
    bytes_sent: int

    @classmethod
    def of(cls, rank: int, steps: int, seconds: float, statistics: Mapping[str, Mapping],
           stores: Mapping[str, EmbeddingStore]) -> "RankReport":
        """statistics: of the rank's engine clients (csrc/engine/engine_client.h), by table. stores: the tables."""

        def over(*names: str) -> int:
            return sum(table[name] for table in statistics.values() for name in names)

        sent = read = 0
        for name, table in statistics.items():
            record = (stores[name].embedding_floats + 1) * FLOAT_BYTES
            read += (table["host_reads"] - table["buffer_reads"]) * record
            sent += (table["values_sent"] + table["write_backs_sent"]) * record
            sent += table["gradient_vectors_sent"] * stores[name].dim * FLOAT_BYTES
        return cls(rank, steps, seconds,
                   over("gate_stall_nanoseconds", "plan_wait_nanoseconds", "staging_stall_nanoseconds") * NANO,
                   over("peer_wait_nanoseconds", "plan_wait_nanoseconds") * NANO, over("cache_reads"),
                   over("host_reads"), over("values_sent"), over("write_backs_sent"), over("gradients_sent"), read,
                   sent)

    def to_dict(self) -> Dict[str, float]:
        """All numbers and the shares made of them, by name."""
        return {**asdict(self), "stall_share": self.stall_seconds / max(self.seconds, 1e-9),
                "peer_share": self.peer_seconds / max(self.seconds, 1e-9),
                "hit_share": self.hits / max(1, self.hits + self.misses),
                "steps_per_second": self.steps / max(self.seconds, 1e-9)}

    def line(self) -> str:
        """The report as a line of the log."""
        share = self.to_dict()
        return (
            f"[proc {self.rank}] {self.steps} steps, {share['steps_per_second']:.1f} a second; stall: "
            f"{share['stall_share']:.2%} of the time, of which {share['peer_share']:.2%} waiting for the slowest rank; "
            f"cache hits: {share['hit_share']:.1%} of {self.hits + self.misses} rows; read from host: "
            f"{self.bytes_read / 2**20:.1f} MiB, sent: {self.bytes_sent / 2**20:.1f} MiB in {self.values} values, "
            f"{self.write_backs} write-backs and gradients of {self.gradients} rows")
