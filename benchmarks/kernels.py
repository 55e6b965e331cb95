"""How fast rows are gathered: python -m benchmarks.kernels --json FILE [--quick]

The same measurements run on the CPU (where "device memory" is a second host buffer) and on a CUDA device if there is
one; what needs a device is null in the JSON otherwise, and `reason` says why. Rates are medians of several runs. The
floor is measured first, in the same run: the rate at which the device copies from pinned host memory (on the CPU:
memcpy), and its memory bandwidth. A gather moves records of dim + 1 floats, in whole 16-byte words; these bytes are
counted, padding is not.
"""
from __future__ import annotations

import statistics
import time

import numpy as np

from dglke_frugal import _native
from dglke_frugal._native import RowTable, prepare_gather
from dglke_frugal.store.device.plan_kernels import FROM_HOST

from . import result_file

DIMS = (32, 64, 128, 256, 400, 1000)
COUNTS = (1_000, 10_000, 100_000, 1_000_000)
REPEATS = 5
PARTS = ("cpu", "cuda")


class CpuDevice:
    name = "cpu"
    stream = 0

    def put(self, array):
        return np.array(array)

    def empty(self, shape, pinned=False):
        return np.zeros(shape, np.float32)

    def copy(self, to, source):
        np.copyto(to, source)

    def seconds(self, work, repeats=REPEATS):
        """Median seconds of `work`, after one run that does not count."""
        work()
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def shared(self, table):
        return table.records


class CudaDevice:
    name = "cuda"

    def __init__(self):
        import torch

        self.torch = torch
        self.stream = torch.cuda.current_stream().cuda_stream
        self.registrations = []

    def put(self, array):
        return self.torch.from_numpy(np.array(array)).cuda()

    def empty(self, shape, pinned=False):
        if pinned:
            return self.torch.zeros(shape, pin_memory=True)
        return self.torch.zeros(shape, device="cuda")

    def copy(self, to, source):
        to.copy_(source, non_blocking=True)

    def seconds(self, work, repeats=REPEATS):
        work()
        self.torch.cuda.synchronize()
        times = []
        for _ in range(repeats):
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        return statistics.median(times)

    def shared(self, table):
        self.registrations.append(_native.HostRegistration(table.records))
        return table.records


def record_bytes(dim):
    return (dim + 1 + 3) // 4 * 16


def floors(device, megabytes):
    """GB/s of a large copy from pinned host memory, and of a copy within the device (bytes read + bytes written)."""
    floats = megabytes * (1 << 20) // 4
    here, there = device.empty(floats), device.empty(floats)
    pinned = device.empty(floats, pinned=True)
    return {"copy_gb_s": 4 * floats / device.seconds(lambda: device.copy(here, pinned)) / 1e9,
            "memory_gb_s": 8 * floats / device.seconds(lambda: device.copy(there, here)) / 1e9}


class Gather:
    """A gather of `count` distinct random rows of a host table, ids ascending unless told otherwise."""

    def __init__(self, device, host, dim, count, order="sorted", slots=None):
        rng = np.random.default_rng(count + dim)
        rows = rng.choice(len(host), count, replace=False)
        self.rows = np.sort(rows) if order == "sorted" else rows
        self.device, self.dim = device, dim
        self.table = RowTable(dim, host, None if slots is None else device.empty((slots, host.shape[1])))
        self.source = np.full(count, FROM_HOST, np.int32)
        if slots is not None:
            self.source = np.sort(rng.choice(slots, count, replace=False)).astype(np.int32)
        self.records = device.empty((count, host.shape[1]))
        self.device_rows, self.device_source = device.put(self.rows), device.put(self.source)
        self.bytes = count * record_bytes(dim)

    def gb_s(self):
        def work():
            self._gather(self.table, self.device_rows)

        return self.bytes / self.device.seconds(work) / 1e9

    def packed_gb_s(self):
        """The way without mapped memory: gather on the CPU into pinned memory, one copy, gather on the device."""
        packed = self.device.empty(self.records.shape, pinned=True)
        there = self.device.empty(self.records.shape)
        copied = RowTable(self.dim, there)
        packed_row = self.device.put(np.arange(len(self.rows)))

        def work():
            # Where `packed` lies, by all cores.
            prepare_gather(self.table, self.rows, self.source, packed)(len(self.rows))
            self.device.copy(there, packed)
            self._gather(copied, packed_row)

        return self.bytes / self.device.seconds(work) / 1e9

    def _gather(self, table, rows):
        prepare_gather(table, rows, self.device_source, self.records)(len(self.rows), self.device.stream)


def gathers(device, table_bytes, dims, counts, threads):
    """Rates by dim and count; at dim 400 also what alignment, order, caching and a copy on the way change."""
    result = {"gb_s": {}}
    for dim in dims:
        table = _native.HostTable(max(2 * max(counts), table_bytes // (dim * 4 + 128)), dim)
        table.init_uniform(-1, 1, 0, 0)
        host = device.shared(table)
        result["gb_s"][dim] = {count: Gather(device, host, dim, count).gb_s() for count in counts}
        if dim != 400:
            continue
        most = counts[-1]
        flat = host.reshape(-1)
        off_lines = flat[: flat.size // (dim + 4) * (dim + 4)].reshape(-1, dim + 4)
        result["unsorted_gb_s"] = Gather(device, host, dim, most, "drawn").gb_s()
        result["off_line_gb_s"] = Gather(device, off_lines, dim, most).gb_s()
        result["cached_gb_s"] = Gather(device, host, dim, most, slots=2 * most).gb_s()
        before = _native.num_threads()
        result["cpu_gather_and_copy_gb_s"] = {}
        for count in sorted({1, threads}):
            _native.set_num_threads(count)
            result["cpu_gather_and_copy_gb_s"][count] = Gather(device, host, dim, most).packed_gb_s()
        _native.set_num_threads(before)
    return result


def measure_device(device, options):
    result = floors(device, 64 if options.quick else 512)
    counts = COUNTS[:3] if options.quick or device.name == "cpu" else COUNTS
    result["gather"] = gathers(device, options.table_bytes, DIMS, counts, options.threads)
    largest = {dim: rates[counts[-1]] for dim, rates in result["gather"]["gb_s"].items()}
    result["over_copy"] = {dim: rate / result["copy_gb_s"] for dim, rate in largest.items()}
    result["cached_share_of_memory_bandwidth"] = 2 * result["gather"]["cached_gb_s"] / result["memory_gb_s"]
    packed = result["gather"]["cpu_gather_and_copy_gb_s"]
    result["over_cpu_gather_and_copy"] = {count: largest[400] / rate for count, rate in packed.items()}
    return result


def cuda_device():
    """A CudaDevice, or the reason why there is none."""
    devices, reason = _native.cuda_devices(with_free_memory=False)
    if not devices:
        return None, reason
    import torch

    if not torch.cuda.is_available():
        return None, "this torch cannot use CUDA"
    return CudaDevice(), ""


def show(name, result):
    gather = result["gather"]
    print(f"{name}: copy {result['copy_gb_s']:.1f} GB/s, memory {result['memory_gb_s']:.1f} GB/s (read + written)")
    for dim, rates in gather["gb_s"].items():
        by_count = ", ".join(f"{count:,} rows {rate:.2f} GB/s" for count, rate in rates.items())
        print(f"  gather dim {dim:4d}: {by_count}; {result['over_copy'][dim]:.2f} of copy")
    by_threads = gather["cpu_gather_and_copy_gb_s"].items()
    packed = ", ".join(f"{rate:.2f} GB/s with {count} threads" for count, rate in by_threads)
    print(f"  dim 400: unsorted {gather['unsorted_gb_s']:.2f}, rows off their lines {gather['off_line_gb_s']:.2f}, "
          f"from the cache {gather['cached_gb_s']:.2f} GB/s; CPU gather and copy: {packed}", flush=True)


def main():
    parser = result_file.parser(__doc__)
    parser.add_argument("--threads", type=int, default=_native.num_threads(), help="of CPU gathers (%(default)s)")
    parser.add_argument("--table_bytes", type=int, default=1 << 30, help="host table, at least (%(default)s)")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS, help="what to measure (all of it)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, to see that it runs")
    options = parser.parse_args()

    result = {"threads": options.threads}
    if "cpu" in options.part:
        result["cpu"] = measure_device(CpuDevice(), options)
        show("cpu", result["cpu"])
    device, result["reason"] = cuda_device() if "cuda" in options.part else (None, "not asked for")
    result["cuda"] = measure_device(device, options) if device else None
    if device:
        show("cuda", result["cuda"])
    else:
        print(f"cuda: not measured, {result['reason']}")
    result["uva_over_copy_dim400"] = result["cuda"]["over_copy"][400] if device else None
    result["uva_over_cpu_gather_dim400"] = result["cuda"]["over_cpu_gather_and_copy"] if device else None
    result_file.write(options.json, result)


if __name__ == "__main__":
    main()
