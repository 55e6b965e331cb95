"""Writes the tables of README and docs, and README's chart, from the results: python -m benchmarks.pages

A table stands in a page between `<!-- table: NAME -->` and `<!-- end -->`, and TABLES has a function of that name. A
figure that no file in benchmarks/results holds shows as a dash, so a page never says more than was measured.
"""

from __future__ import annotations

import functools
import json
import math
import re
import statistics
import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from dglke_frugal.files import replace_file

from . import gpu_model

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
CHART = ROOT / "docs" / "speed.svg"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOTHING = "-"


class Results:
    """The figures of benchmarks/results: `results("train-cpu", "models", "TransE_l2")`; None if there is none."""

    def __init__(self, folder: Path = RESULTS):
        self._files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}

    def __call__(self, file: str, *keys: str) -> Any:
        value = self._files.get(file, {})
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def machine(self, file: str, gpus: Optional[int] = None) -> str:
        """The hardware of a result: "2 x NVIDIA H100", or "2 cores of an AMD EPYC". gpus: how many of them a figure is
        of, if not of all."""
        facts = self(file, "machine") or {}
        if not facts.get("gpu"):
            processor = re.sub(r"\((R|TM)\)| Processor| CPU.*", "", facts.get("processor", "processor"))
            return f"{facts.get('cores', '?')} core{'s' if facts.get('cores') != 1 else ''} of an {processor}"
        name = re.sub(r"^\d+ x |,.*| \d+GB.*", "", facts["gpu"])
        of_file = re.search(r"-(\d)gpu", file)
        count = gpus or int(of_file[1] if of_file else 1)
        return f"{count} x {name}" if count > 1 else f"one {name}"


def significant(value: Optional[float], digits: int = 3, unit: str = "") -> str:
    """A number with so many digits: 16.4, 0.0286, 103."""
    if value is None:
        return NOTHING
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{places}f}{unit}"


def millions(rate: Optional[float]) -> str:
    return significant(rate and rate / 1e6)


def over(rate: Optional[float], other: Optional[float]) -> str:
    """A ratio of two rates: 64x."""
    return significant(rate / other, 2, "x") if rate and other else NOTHING


def mrr(value: Optional[float]) -> str:
    """An MRR without its zero: .652."""
    return f"{value:.3f}".lstrip("0") if value is not None else NOTHING


def milliseconds(seconds: Optional[float]) -> str:
    return significant(seconds and seconds * 1e3, 3, " ms")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def best_rate(results: Results, file: str, part: str, *legs: str) -> Optional[float]:
    """The highest rate among legs of several GPUs that were measured."""
    rates = [results(file, part, leg, "triples_per_second") for leg in legs]
    return max((rate for rate in rates if rate), default=None)


def fb15k_rates(results: Results) -> List[tuple]:
    """(file, ours, DGL-KE's, command): triples/s of FB15k, TransE_l2, on the CPU, one, two and four GPUs."""
    legs = ("models", "TransE_l2", "legs")
    cpu = [results("train-cpu", *legs, leg, "triples_per_second") for leg in ("frugal", "vanilla")]
    rows = [("train-cpu", *cpu, "benchmarks.train"),
            ("train_gpu-1gpu", results("train_gpu-1gpu", "fb15k", "frugal_default", "triples_per_second"),
             results("train_gpu-1gpu", "fb15k", "vanilla", "triples_per_second"), "benchmarks.train_gpu --part fb15k")]
    for count in (2, 4):
        file = f"ranks-{count}gpus"
        gpus = " ".join(map(str, range(count)))
        rows.append((file, best_rate(results, file, "fb15k", f"columns_on_device_{count}", f"columns_{count}"),
                     results(file, "fb15k", f"vanilla_{count}", "triples_per_second"),
                     f"benchmarks.ranks --gpu {gpus} --part fb15k"))
    return rows


def speed(results: Results) -> str:
    """README's table: six rows."""
    rows = [[results.machine(file), "FB15k", millions(ours), millions(theirs), over(ours, theirs), f"`{command}`"]
            for file, ours, theirs, command in fb15k_rates(results)]
    one, theirs = (results("train_gpu-1gpu", "large", leg, "triples_per_second") for leg in ("frugal", "vanilla_mix"))
    two = results("ranks-2gpus", "large", "columns_2", "triples_per_second")
    what = "20 M entities, 33 GB, 5 % cached"
    rows.append([results.machine("train_gpu-1gpu"), f"{what}; DGL-KE: `--mix_cpu_gpu`", millions(one),
                 millions(theirs), over(one, theirs), "`benchmarks.train_gpu --part large`"])
    rows.append([results.machine("ranks-2gpus"), what, millions(two), NOTHING, NOTHING,
                 "`benchmarks.ranks --gpu 0 1 --part large`"])
    return table(["machine", "graph", "dglke_frugal", "DGL-KE", "ratio", "command: `python -m`"], rows)


def quality(results: Results) -> str:
    """README's table: six rows."""
    cpu = [results("quality-cpu", "summary", who, "MRR", "mean") for who in ("native", "vanilla")]
    rows = [["FB15k", "TransE_l2, DGL-KE's recipe", mrr(cpu[0]), f"{mrr(cpu[1])} (DGL-KE, same machine)",
             "`python -m benchmarks.quality`"]]
    softmax = "ComplEx, softmax over all entities"
    for graph, run, model, source in (
        ("FB15k-237", "fb15k_237/complex_softmax_relations, seed 1", softmax, "Chen et al."),
        ("FB15k-237", "fb15k_237/rotate", "RotatE, sampled negatives", "LibKGE"),
        ("FB15k-237", "fb15k_237/transe_l2", "TransE, sampled negatives", "LibKGE"),
        ("wn18rr", "wn18rr/complex_softmax_relations, seed 1", softmax, "Chen et al."),
        ("wn18rr", "wn18rr/rotate", "RotatE, sampled negatives", "LibKGE")):
        rows.append([graph, model, *_with_published(results, run, source),
                     f"`dglke_train --preset {run.split(',')[0]}`"])
    return table(["graph", "model", "MRR", "MRR of others", "command"], rows)


def _with_published(results: Results, run: str, source: str) -> List[str]:
    found = results("recipes-1gpu", "runs", run) or {}
    published = found.get("published_mrr")
    return [mrr(found.get("MRR")), f"{mrr(published)} ({source}, published)" if published else NOTHING]


def speed_cpu(results: Results) -> str:
    """A step of models on the CPU, ours and DGL-KE's."""
    rows = []
    for name, found in (results("train-cpu", "models") or {}).items():
        ours, theirs = (found["legs"].get(who, {}).get("step_ms") for who in ("frugal", "vanilla"))
        rows.append([name, significant(ours, 3, " ms"), significant(theirs, 3, " ms"), over(theirs, ours)])
    return table([f"model, on {results.machine('train-cpu')}", "dglke_frugal, a step", "DGL-KE", "ratio"], rows)


def speed_gpu(results: Results) -> str:
    """Triples/s of each model on one GPU, behind a cache of 5 %."""
    models = results("train_gpu-1gpu", "models") or {}
    rows = []
    for name in (name for name in models if not name.startswith("vanilla_")):
        ours = models[name].get("triples_per_second")
        theirs = results("train_gpu-1gpu", "models", f"vanilla_{name}", "triples_per_second")
        rows.append([name, millions(ours), millions(theirs), over(ours, theirs)])
    return table([f"model, on {results.machine('train_gpu-1gpu')}", "dglke_frugal, M triples/s", "DGL-KE, `--gpu 0`",
                  "ratio"], rows)


def settings_gpu(results: Results) -> str:
    rows = []
    for what, part, leg in (("FB15k, all rows on the GPU (default)", "fb15k", "frugal_default"),
                            ("FB15k, `--cache_ratio 0.05`", "fb15k", "frugal"),
                            ("FB15k, `--cache_ratio 0.05 --row_dtype fp16`", "fb15k", "frugal_fp16_rows"),
                            ("a graph of two dominant relations and hubs, all rows on the GPU", "shapes", "skewed"),
                            ("wn18rr, all rows on the GPU", "shapes", "wn18rr"),
                            ("20 M entities, `--cache_ratio 0.05`", "large", "frugal"),
                            ("20 M entities, `--cache_ratio 0.05 --row_dtype fp16`", "large", "frugal_fp16_rows")):
        found = results("train_gpu-1gpu", part, leg) or {}
        rows.append([what, significant(found.get("step_ms"), 3, " ms"), millions(found.get("triples_per_second"))])
    peer = results("train_gpu-1gpu", "fb15k", "compiled_torch", "step_ms")
    rows.append(["the step of FB15k as compiled PyTorch in one CUDA graph", significant(peer, 3, " ms"), NOTHING])
    return table([f"TransE_l2 on {results.machine('train_gpu-1gpu')}", "a step", "M triples/s"], rows)


def several_gpus(results: Results) -> str:
    """Triples/s of two and four GPUs, and over one in the same run."""
    rows = []
    for what, key, part, one, legs in (
        ("FB15k, TransE_l2, tables on the GPUs", "fb15k", "fb15k", "one_on_device", ["columns_on_device"]),
        ("FB15k, ComplEx", "complex", "models", "ComplEx_one", ["ComplEx_columns"]),
        ("FB15k, RotatE, dim 200", "rotate", "models", "RotatE_one", ["RotatE_columns"]),
        ("20 M entities, TransE_l2, 5 % cached", "20m", "large", "one",
         ["columns"]),
        ("the same, `--row_dtype fp16`", "20m_fp16", "large", "one_fp16", ["columns_fp16"]),
        ("20 M entities, `--peer off`, data parallel", "20m_rows", "large", "one",
         ["rows_meet_uncached_no_peer", "rows_meet_no_peer", "rows_no_peer"])):
        cells = [what]
        for count in (2, 4):
            file = f"ranks-{count}gpus"
            several = best_rate(results, file, part, *(f"{leg}_{count}" for leg in legs))
            cells += [millions(several), significant(several / results(file, part, one, "triples_per_second"), 3, "x")
                      if several and results(file, part, one, "triples_per_second") else NOTHING]
        rows.append(cells)
    heads = ["what"]
    for count in (2, 4):
        heads += [f"{results.machine(f'ranks-{count}gpus')}, M triples/s", "over one"]
    return table(heads, rows)


@functools.lru_cache(None)
def by_model() -> Dict[str, Any]:
    """What the model of a GPU's step (gpu_model.py) gives."""
    return gpu_model.predictions(gpu_model.measured())


def cards_without_peer(_results: Results) -> str:
    """What several consumer cards would give over one, by a model (gpu_model.py)."""
    cards, columns = ("RTX 3090", "RTX 4090"), ("2, desktop", "2", "4", "8")
    predicted, rows = by_model()["cards"], []
    for what, setting in (("FB15k, by columns", "fb15k"), ("20 M entities, `--parallel rows`", "20m_rows"),
                          ("20 M entities, by columns", "20m")):
        for name in ("TransE_l2", "ComplEx", "RotatE"):
            found = [predicted[card][setting][name] for card in cards]
            rows.append([f"{what}, {name}", *(cell for rates in found for cell in (
                millions(rates["1"]), *(over(rates[count], rates["1"]) for count in columns)))])
    heads = [head for card in cards for head in (
        f"one {card}, M triples/s", *(f"{count[0]} x {card[4:]}{count[1:]}" for count in columns))]
    return table(["by a model", *heads], rows)


def gpu_model_sentence(_results: Results) -> str:
    """How near the model comes to what was measured."""
    legs = by_model()["checked"]
    checks = [leg for leg in legs.values() if not leg["solved"]]
    of_gpus = []
    for count, name in ((1, "one GPU"), (2, "two"), (4, "four")):
        ratios = [leg["model_over_measured"] for leg in checks if leg["gpus"] == count]
        of_gpus.append(f"{min(ratios):.2f} to {max(ratios):.2f} for {name} ({len(ratios)} runs)")
    no_peer = ", ".join(f"{leg['model_over_measured']:.2f}" for leg in checks if leg["way"] == "rows")
    return (f"On H100 and H200 the model's time of a step over the measured one is\n{', '.join(of_gpus)},\n"
            f"without the {len(legs) - len(checks)} runs that its constants come from; with `--peer off`, data "
            f"parallel on two GPUs, it is {no_peer}.\n")


def flushing(results: Results) -> str:
    """What P2F's flush threads and stores from the GPU were measured to give over flushing in each step."""
    rows = []
    for count in ("2", "3", "4"):
        p2f, sync = (results("ranks-cpu", "ranks", count, way, "steps_per_second") for way in ("p2f", "sync"))
        rows.append([f"{count} processes", results.machine("ranks-cpu"), "flush threads", significant(p2f, 3),
                     significant(sync, 3), significant(p2f / sync, 3, "x") if p2f and sync else NOTHING])
    for way, leg in (("flush threads", "frugal_staged"), ("stores from the GPU", "frugal")):
        p2f, sync = (results("train_gpu-1gpu", "fb15k", each, "steps_per_second") for each in (leg, "frugal_sync"))
        rows.append(["one GPU, 5 % of FB15k cached", results.machine("train_gpu-1gpu"), way, significant(p2f, 4),
                     significant(sync, 4), over(p2f, sync)])
    two = best_rate(results, "ranks-2gpus", "large", "rows_meet_uncached_no_peer_2", "rows_meet_no_peer_2")
    sync = best_rate(results, "ranks-2gpus", "large", "rows_sync_no_peer_2")
    steps = [rate / 1024 if rate else None for rate in (two, sync)]
    rows.append(["two data-parallel GPUs, `--peer off`, 20 M entities", results.machine("ranks-2gpus"),
                 "stores from the GPU", *(significant(rate and round(rate), 4) for rate in steps), over(two, sync)])
    return table(["workers", "machine", "way", "P2F, steps/s of all", "`--flush sync`", "ratio"], rows)


def p2f_in_short(results: Results) -> str:
    """The first paragraph of the page on P2F: who writes rows back where, and what that was measured to give."""
    of_cpu = [[results("ranks-cpu", "ranks", count, way, "steps_per_second") for way in ("p2f", "sync")]
              for count in "234"]
    ratios = [p2f / sync for p2f, sync in of_cpu if p2f and sync]
    threads = f"{min(ratios):.2f} to {max(ratios):.2f} times" if ratios else NOTHING
    gpus = over(best_rate(results, "ranks-2gpus", "large", "rows_meet_uncached_no_peer_2", "rows_meet_no_peer_2"),
                best_rate(results, "ranks-2gpus", "large", "rows_sync_no_peer_2"))
    one = {leg: results("train_gpu-1gpu", "fb15k", leg, "triples_per_second")
           for leg in ("frugal", "frugal_default", "frugal_staged", "frugal_sync")}
    staged, stored = (over(one[leg], one["frugal_sync"]).rstrip("x") for leg in ("frugal_staged", "frugal"))
    seconds = [results("embedding-2gpus", f"workers_2_{way}_seconds_8192") for way in ("sync", "p2f")]
    embedding = over(*seconds).rstrip("x")
    columns = millions(results("ranks-2gpus", "large", "columns_2", "triples_per_second"))
    words = (
        "P2F (after the ASPLOS 2025 paper *Frugal*, doi 10.1145/3669940.3707245) writes updated rows back to host "
        "memory while later steps compute. **Flush threads** do that for several processes on the CPU that leave a "
        "core free, for several data-parallel GPUs with `--row_dtype fp16`, and for `Embedding` in several processes. "
        "**The GPU stores the rows itself**, without flush threads, on one GPU with a cache, on several GPUs sharded "
        "by columns with a cache, on several data-parallel GPUs in float32, and for `Embedding` on one GPU. Measured "
        "against `--flush sync`, which writes all rows back in each step: flush threads of two to four processes on "
        f"{results.machine('ranks-cpu')} make {threads} its steps, and those of `Embedding` in two processes, a GPU "
        f"each, {embedding} times; {results.machine('train_gpu-1gpu')} with 5 % of FB15k cached makes {staged} times "
        "its steps with flush "
        f"threads and {stored} times where it stores the rows itself, two data-parallel GPUs that do so "
        f"{gpus.rstrip('x')} times (without a cache, their default; sync behind a cache of 5 %). In triples/s: "
        f"{results.machine('train_gpu-1gpu')} with 5 % of FB15k cached makes {millions(one['frugal'])} M, and "
        f"{millions(one['frugal_default'])} M where all rows lie on the GPU; {results.machine('ranks-2gpus')} sharded "
        f"by columns with 5 % of 20 million entities cached make {columns} M. Data-parallel GPUs in fp16 were not "
        "measured.")
    together = re.sub("`[^`]*`|[0-9]+ %", lambda found: found[0].replace(" ", "\0"), words)
    return "\n".join(textwrap.wrap(together, 140, break_on_hyphens=False)).replace("\0", " ") + "\n"


def workers_cpu(results: Results) -> str:
    """Several processes on the CPU, ours and DGL-KE's."""
    rows = []
    for count in ("1", "2", "3", "4"):
        found = results("ranks-cpu", "ranks", count) or {}
        ours = (found.get("sync") or found.get("p2f") or {}).get("steps_per_second")
        theirs = (found.get("vanilla") or {}).get("steps_per_second")
        rows.append([count, significant(ours, 3), significant(theirs, 3), over(ours, theirs)])
    return table([f"processes, on {results.machine('ranks-cpu')}", "dglke_frugal, steps/s of all", "DGL-KE", "ratio"],
                 rows)


def large_graph(results: Results) -> str:
    """A table of Freebase's size."""
    rows = []
    for file in ("large_graph-1gpu", "large_graph-2gpus"):
        found = results(file) or {}
        steps, batch = found.get("steps_per_second"), 1000 * len(found.get("gpu") or [0])
        peak = found.get("peak_bytes")
        rows.append([results.machine(file), significant(found.get("entities", 0) / 1e6, 3, " M"),
                     millions(steps and steps * batch), significant(peak and peak / 1e9, 3, " GB"),
                     significant(found.get("peak_over_plan"), 4)])
    return table(["machine", "entities x 400", "M triples/s", "peak of host memory", "over `dglke_frugal plan`"], rows)


def softmax(results: Results) -> str:
    """A step against all entities, ours and that of compiled PyTorch."""
    rows = []
    for size, name, file, part in (("14,541 x 2000", "14k", "full_softmax-1gpu", "speed_tf32"),
                                   ("123,182 x 2000", "123k", "full_softmax-1gpu", "speed_tf32"),
                                   ("2,500,604 x 100", "2500k", "full_softmax-1gpu", "speed_tf32"),
                                   ("14,541 x 200", "14k_200", "train-cpu", "speed_cpu")):
        ours, theirs = (results(file, part, f"{who}_ms_{name}") for who in ("softmax", "torch"))
        rows.append([size, results.machine(file), significant(ours, 3, " ms"), significant(theirs, 3, " ms"),
                     over(theirs, ours)])
    return table(["entities x numbers", "on", "dglke_frugal", "compiled PyTorch", "ratio"], rows)


def embedding(results: Results) -> str:
    """A DLRM step with `Embedding` and with torch's own embedding."""
    rows = []
    for place, file, other in (("gpu", "embedding-2gpus", "torch_gpu_by_copies"),
                               ("cpu", "embedding-cpu", "torch_cpu")):
        for batch in ("1024", "8192"):
            ours, theirs, alone = (results(file, f"{leg}_seconds_{batch}") for leg in (
                f"embedding_{place}", other, f"model_alone_{'cuda' if place == 'gpu' else 'cpu'}"))
            rows.append([results.machine(file, gpus=1), batch, milliseconds(ours), milliseconds(theirs),
                         over(theirs, ours), milliseconds(alone)])
    for batch in ("1024", "8192"):
        two, samples = (results("embedding-2gpus", name) for name in (
            f"workers_2_direct_seconds_{batch}", f"dlrm_gpus_over_one_2_{batch}_direct"))
        rows.append([f"{results.machine('embedding-2gpus')}, a process each", f"{batch} each", milliseconds(two),
                     NOTHING, f"{significant(samples, 2)}x the samples of one GPU", NOTHING])
    return table(["machine", "batch", "with `Embedding`", "with torch's embedding on the CPU", "ratio",
                  "dense layers alone"], rows)


def lookups(results: Results) -> str:
    """Training steps of a million ids of a table, and what others have published of such steps."""
    rows, file = [], "embedding-2gpus"
    for name, what in (("sgd", "SGD"), ("rowwise_adagrad", "row-wise Adagrad"), ("adagrad", "Adagrad"),
                       ("adam", "Adam")):
        ours, ratio = results(file, f"lookup_{name}_seconds"), results(file, f"lookup_{name}_over_floor")
        rows.append([f"`Embedding`, {what}", milliseconds(ours), milliseconds(ours and ours / ratio)])
    rows.append(["torch's sparse gradients and SGD, all rows on the GPU",
                 milliseconds(results(file, "lookup_torch_sparse_seconds")), NOTHING])
    for source, figures in (results(file, "published") or {}).items():
        if "training step" in source:
            rows += [[f"{name}: published for one H100, not run here", milliseconds(seconds), NOTHING]
                     for name, seconds in figures.items()]
    return table([f"on {results.machine(file, gpus=1)}", "a step", "floor: its bytes at this machine's rates"], rows)


def evaluation(results: Results) -> str:
    """A whole filtered test, and loading."""
    eval_seconds, theirs = results("eval-cpu", "eval_seconds"), results("eval-cpu", "vanilla_eval_seconds")
    rows = [["filtered test of FB15k, 59,071 triples", significant(eval_seconds, 3, " s"),
             significant(theirs, 3, " s"), over(theirs, eval_seconds)],
            ["loading triples of numbers from text", millions(results("load-cpu", "triples_per_s")) + " M triples/s",
             millions(results("load-cpu", "python_lists_triples_per_s")) + " M triples/s",
             over(results("load-cpu", "triples_per_s"), results("load-cpu", "python_lists_triples_per_s"))]]
    return table([f"on {results.machine('eval-cpu')}", "dglke_frugal", "DGL-KE's way", "ratio"], rows)


def seeds(results: Results) -> str:
    """MRR of ours and of DGL-KE, by three seeds."""
    rows = []
    for what, file in (("one process, 24,000 steps", "quality-cpu"),
                       ("four processes, 6,000 steps each", "quality_of_workers-1gpu")):
        cells = []
        for who in ("native", "vanilla"):
            found = results(file, "summary", who, "MRR") or {}
            cells.append(f"{found['mean']:.4f} +- {found['deviation']:.4f}".replace("0.", ".") if found else NOTHING)
        rows.append([what, *cells])
    return table(["FB15k, TransE_l2, DGL-KE's recipe", "dglke_frugal", "DGL-KE"], rows)


def two_machines(results: Results) -> str:
    """A step of two machines behind slow networks, as measured and as planned."""
    rows = []
    for gbit in ("2.5", "1"):
        found = {name: results("machines-cpu", f"{name}_{gbit}Gb")
                 for name in ("step_seconds", "model_over_measured", "wait_share")}
        if None in found.values():
            continue
        step = 1e3 * found["step_seconds"]
        rows.append([f"{gbit} Gb/s", significant(step, 3, " ms"),
                     significant(step * found["model_over_measured"], 3, " ms"), f"{100 * found['wait_share']:.1f} %"])
    return table([f"network of two machines that share {results.machine('machines-cpu')}", "a step",
                  "as `dglke_frugal plan` has it", "waiting for the other"], rows)


def two_machines_sentence(results: Results) -> str:
    """What two machines send, and their speed over that of two workers."""
    entities, sent, fp16, over_naive, fp16_over_naive, over_workers = (
        results("machines-cpu", name) for name in ("entities", "bytes_per_step", "half_bytes_per_step",
                                                   "bytes_over_naive", "half_bytes_over_naive",
                                                   "machines_over_workers"))
    lines = (f"These are of {entities / 1e6:.0f} million entities. A machine sends {sent / 1e6:.2f} MB a step,",
             f"{over_naive:.2f} of what fetching and returning every row would send; in fp16 {fp16 / 1e6:.2f} MB,",
             f"{fp16_over_naive:.2f} of it. On one computer, without a limit, two machines make {over_workers:.2f}",
             "times the steps of `--num_proc 2` on the same cores.")
    return "\n".join((*lines, ""))


def gpu_machines(results: Results) -> str:
    """What two machines with a GPU each were measured to take, and the model of it."""
    network, step, model, over_one = (results("machines-2gpus", f"gpu_{name}") for name in (
        "network_bytes_per_second", "step_seconds", "model_over_measured", "over_one"))
    lines = (f"Two machines with a GPU each, on one computer ({results.machine('machines-2gpus')}) whose loopback "
             "network carried",
             f"{8e-9 * network:.1f} Gb/s, took {1e3 * step:.2f} ms a step where the model has "
             f"{1e3 * model * step:.2f} ms, and trained {over_one:.3f} times",
             "as many triples a second as one of the GPUs alone that holds the tables, of a million entities.")
    return "\n".join((*lines, ""))


def local_negatives(results: Results) -> str:
    """MRR of several machines by who owns entities and where negatives come from, and of one process."""
    models, names = {"FB15k": "TransE_l2", "wn18rr": "ComplEx"}, {
        "1": "one process", "2 global": "2 machines", "2 local": "2, local negatives", "4 global": "4 machines",
        "4 local": "4, local negatives", "4 metis global": "4, by METIS",
        "4 metis local": "4, by METIS, local negatives"}
    rows = []
    for name, what in names.items():
        cells = []
        for data in models:
            found = results("local_negatives-cpu", "MRR", data, name)
            cells.append(f"{mrr(statistics.mean(found))} +- {mrr(statistics.stdev(found))}" if found else NOTHING)
            within = results("local_negatives-cpu", "within_noise", data, name)
            cells.append(NOTHING if within is None else "yes" if within else "no")
        rows.append([what, *cells])
    return table(["MRR, three seeds", *(head for data, model in models.items()
                                        for head in (f"{data}, {model}", "within noise"))], rows)


def half_rows(results: Results) -> str:
    """MRR with rows in fp16 and in float32."""
    rows = []
    for name, found in (results("half_rows-1gpu", "compared") or {}).items():
        mean = found.get("mean_mrr", {})
        if "fp32" in mean:
            rows.append([f"`{name}`", *(f"{mean[kind]:.4f}".lstrip("0") if kind in mean else NOTHING
                                        for kind in ("fp32", "fp16")), f"{found['spread']:.4f}".lstrip("0")])
    return table([f"preset, three seeds, on {results.machine('half_rows-1gpu')}", "MRR, float32", "MRR, fp16",
                  "largest - smallest of float32"], rows)


def pykeen(results: Results) -> str:
    """Triples/s of ours and of PyKEEN, with negatives of each triple's own and with negatives that a chunk shares."""
    rows = []
    if not results("pykeen-cpu", "models"):
        return "Not measured yet.\n"
    for name, found in results("pykeen-cpu", "models").items():
        theirs, own, shared = (found.get(leg) for leg in ("pykeen", "own", "shared"))
        rows.append([name, *(significant(rate and round(rate), 3) for rate in (theirs, own)), over(own, theirs),
                     significant(shared and round(shared), 3), over(shared, theirs)])
    return table([f"model, on {_one_core(results, 'pykeen-cpu')}", "PyKEEN, triples/s", "own negatives", "ratio",
                  "shared negatives (default)", "ratio"], rows)


def pykeen_sentence(results: Results) -> str:
    """The same in a sentence."""
    models = (results("pykeen-cpu", "models") or {}).values()
    ratios = {leg: sorted(found[leg] / found["pykeen"] for found in models) for leg in ("own", "shared")}
    if not models:
        return "Compared with PyKEEN: [how to compare](docs/from-pykeen.md); not measured yet.\n"
    own, shared = (f"{significant(found[0], 2)} to {significant(found[-1], 2)}" for found in ratios.values())
    return (f"Compared with PyKEEN {results('pykeen-cpu', 'pykeen_version')} on {_one_core(results, 'pykeen-cpu')} "
            f"(FB15k, {len(models)} models) training is {own} times as fast\nwhere each triple has negatives of its "
            f"own on both sides, as PyKEEN draws them, and {shared} times\nas fast with our default, negatives that a "
            "chunk of triples shares: [for users of PyKEEN](docs/from-pykeen.md).\n")


def _one_core(results: Results, file: str) -> str:
    """The processor of a result that is by core."""
    return f"one core of {results.machine(file).split(' of ')[-1]}"


TABLES: Dict[str, Callable[[Results], str]] = {
    made.__name__: made for made in (
        speed, quality, speed_cpu, speed_gpu, settings_gpu, several_gpus, cards_without_peer, gpu_model_sentence,
        flushing, p2f_in_short, workers_cpu, large_graph, softmax, embedding, lookups, evaluation, seeds, two_machines,
        two_machines_sentence, gpu_machines, local_negatives, half_rows, pykeen, pykeen_sentence)}


def fill(text: str, results: Results) -> str:
    """A page with each of its tables as the results have it now."""
    def made(block: re.Match) -> str:
        if block[2] not in TABLES:
            raise SystemExit(f"there is no table {block[2]!r}; there are {', '.join(TABLES)}")
        return f"{block[1]}{TABLES[block[2]](results)}{block[3]}"

    return BLOCK.sub(made, text)


STYLE = """\
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f }
.title { font-weight: 600 } .small { font-size: 11px; fill: #57606a } .grid { stroke: #d0d7de }
.ours { fill: #1a7f64 } .theirs { fill: #9aa4af }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9aa4af } .grid { stroke: #373e47 }
  .ours { fill: #3fb68b } .theirs { fill: #7d8590 }
}
</style>"""
WIDTH, LEFT, RIGHT, TOP, ROW = 540, 180, 470, 76, 52
LOWEST, HIGHEST = 1e4, 1e8


def chart(results: Results) -> str:
    """Triples/s of FB15k on the CPU, one, two and four GPUs as bars on a logarithmic axis; SVG."""
    def x(rate: float) -> float:
        share = math.log10(rate / LOWEST) / math.log10(HIGHEST / LOWEST)
        return LEFT + (RIGHT - LEFT) * min(1.0, max(0.0, share))

    rows = [row for row in fb15k_rates(results) if row[1]]
    bottom = TOP + ROW * len(rows)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" viewBox="0 0 {WIDTH} {bottom + 30}" role="img" '
             'aria-label="Triples per second of dglke_frugal and DGL-KE">', STYLE,
             '<text class="title" x="10" y="20">FB15k, TransE_l2, dim 400: triples per second</text>',
             '<text class="small" x="10" y="38">each line is ten times the one before</text>',
             '<rect class="ours" x="10" y="51" width="12" height="12"/><text x="28" y="62">dglke_frugal</text>',
             '<rect class="theirs" x="130" y="51" width="12" height="12"/><text x="148" y="62">DGL-KE</text>']
    for power in range(round(math.log10(LOWEST)), round(math.log10(HIGHEST)) + 1):
        at, label = x(10.0**power), f"{10 ** (power - 6):g} M" if power >= 6 else f"{10 ** (power - 3):g} k"
        parts.append(f'<line class="grid" x1="{at:.0f}" y1="{TOP}" x2="{at:.0f}" y2="{bottom}"/>'
                     f'<text class="small" x="{at:.0f}" y="{bottom + 18}" text-anchor="middle">{label}</text>')
    for place, (file, ours, theirs, _) in enumerate(rows):
        y = TOP + ROW * place + 6
        parts.append(f'<text x="10" y="{y + 25}">{results.machine(file)}</text>')
        for name, rate, top in (("ours", ours, y), ("theirs", theirs, y + 20)):
            if rate:
                shown = f"{millions(rate)} M" if rate >= 1e6 else f"{significant(rate / 1e3, 3)} k"
                parts.append(f'<rect class="{name}" x="{LEFT}" y="{top}" width="{x(rate) - LEFT:.0f}" height="17"/>'
                             f'<text x="{x(rate) + 6:.0f}" y="{top + 13}">{shown}</text>')
            else:
                parts.append(f'<text class="small" x="{LEFT + 4}" y="{top + 13}">not measured</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def pages() -> List[Path]:
    """All pages that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> None:
    results = Results()
    made = {path: fill(path.read_text(encoding="utf-8"), results) for path in pages()}
    made[CHART] = chart(results)
    for path, text in made.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            with replace_file(path, "w") as file:
                file.write(text)
            print(f"Wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
