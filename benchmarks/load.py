"""How fast graphs load, and in how much memory: python -m benchmarks.load --json FILE [--triples 20000000]

A generated graph with Freebase's proportions (3.5 triples per entity, skewed), as integer text (Freebase's layout), as
text of names (raw_udd) and as .npy (WikiKG90Mv2's layout). Each load is a process of its own; its peak is the most
memory it ever held beyond what it held before loading, over the bytes of the arrays it returns (names included).
Files are in the page cache, so this measures the program, not the disk.

The floor is reading the integer text and counting its newlines. The peer reads a million lines the way DGL-KE does,
line by line into Python lists.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from . import result_file

LOADS = {  # dataset, format, files, cache
    "ids": ("Freebase", "built_in", None, False),
    "names": ("named", "raw_udd_htr", ["named.txt"], False),
    "npy": ("wikikg90Mv2", "built_in", None, False),
    "first_cached": ("Freebase", "built_in", None, True),
    "cached": ("Freebase", "built_in", None, True)}


def memory(field):
    """Bytes of a field of this process's status: VmRSS now, VmHWM at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024


def load_once(folder, kind, threads):
    from dglke_frugal import _native
    from dglke_frugal.data import load_graph

    dataset, format, files, cache = LOADS[kind]
    if dataset == "wikikg90Mv2":
        import torch  # noqa: F401  read meta.pt; its own size is not the graph's
    _native.set_num_threads(threads)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    start = time.perf_counter()
    graph = load_graph(dataset, folder, format, files, cache=cache)
    seconds = time.perf_counter() - start
    triples = sum(len(split) for split in graph.splits.values())
    arrays = sum(split.nbytes for split in graph.splits.values())
    if kind == "names":
        arrays += sum(part.nbytes for names in (graph.entity_names, graph.relation_names) for part in names.packed)
    print(json.dumps({"triples": triples, "seconds": seconds, "arrays": arrays, "peak": memory("VmHWM") - before}))


def measure(folder, kind, threads, repeats):
    results = []
    for _ in range(repeats):
        command = [sys.executable, "-m", "benchmarks.load", "--once", kind, "--folder", str(folder),
                   "--threads", str(threads)]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        results.append(json.loads(out.splitlines()[-1]))
    return (statistics.median(r["triples"] / r["seconds"] for r in results),
            statistics.median(r["peak"] / r["arrays"] for r in results))


def make(folder, triples):
    from dglke_frugal.data.synthetic import SyntheticGraph, write

    held_out = max(1, triples // 20)
    graph = SyntheticGraph(max(2, int(triples / 3.5)), 14_824, triples - 2 * held_out, held_out, held_out)
    for layout in ("Freebase", "wikikg90Mv2"):
        write(graph, folder, layout)
    with open(folder / "Freebase" / "train.txt", "rb") as ids, open(folder / "named.txt", "wb") as names:
        for line in ids:
            head, tail, relation = line.split(b"\t")
            names.write(b"/m/0%s\t/m/0%s\t/r/%s" % (head, tail, relation))


def floor(path, threads):
    from dglke_frugal import _native
    from dglke_frugal.data import text

    _native.set_num_threads(threads)
    start = time.perf_counter()
    lines = text.count_lines(path)
    return lines / (time.perf_counter() - start)


def python_lists(path, lines=1_000_000):
    heads, relations, tails = [], [], []
    start = time.perf_counter()
    with open(path) as file:
        for _, line in zip(range(lines), file):
            head, tail, relation = line.strip().split("\t")
            heads.append(int(head))
            relations.append(int(relation))
            tails.append(int(tail))
    for column in (heads, relations, tails):
        np.array(column, dtype=np.int64)
    return len(heads) / (time.perf_counter() - start)


def main():
    parser = result_file.parser(__doc__)
    parser.add_argument("--triples", type=int, default=20_000_000, help="%(default)s")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count()), help="%(default)s")
    parser.add_argument("--repeats", type=int, default=3, help="%(default)s")
    parser.add_argument("--folder", type=Path, help="where the graph is made (default: a temporary folder)")
    parser.add_argument("--once", choices=LOADS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        return load_once(options.folder, options.once, options.threads)

    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        make(folder, options.triples)
        ids = folder / "Freebase" / "train.txt"
        result = {"triples": options.triples, "threads": options.threads}
        result["floor_triples_per_s"] = statistics.median(floor(ids, options.threads) for _ in range(options.repeats))
        for kind in LOADS:
            speed, peak = measure(folder, kind, options.threads, 1 if kind == "first_cached" else options.repeats)
            prefix = "" if kind == "ids" else f"{kind}_"
            result[f"{prefix}triples_per_s"] = speed
            result[f"{prefix}peak_over_arrays"] = peak
        result["python_lists_triples_per_s"] = statistics.median(python_lists(ids) for _ in range(options.repeats))
        result["over_python_lists"] = result["triples_per_s"] / result["python_lists_triples_per_s"]
    for key, value in result.items():
        print(f"{key:32} {value:,.2f}")
    result_file.write(options.json, result)


if __name__ == "__main__":
    main()
