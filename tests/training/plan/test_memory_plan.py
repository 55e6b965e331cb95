"""The memory plan against what runs really take, and what is reported when it is too much."""

import json
import resource
from types import SimpleNamespace

import numpy as np
import pytest
from training.conftest import Runs

from dglke_frugal import available_memory
from dglke_frugal.cli.main import main
from dglke_frugal.options import TrainConfig
from dglke_frugal.data import load_graph
from dglke_frugal.training.batches.sampler import Sampler, SamplerConfig
from dglke_frugal.training.plan import memory_plan
from dglke_frugal.training.plan.memory_plan import GraphSize, plan_memory
from dglke_frugal.training.run.session import graph_size

ENTITIES, RELATIONS, TRIPLES = 150_000, 50, 40_000
AGAINST_ALL = ["--model_name", "ComplEx", "--loss_genre", "Softmax", "--neg_sample_size", "all"]


@pytest.fixture
def plan(capsys):
    """What `dglke_frugal plan --json` prints, its exit code, and its error output."""

    def command(*flags):
        code = 0
        try:
            main(["plan", "--json", *map(str, flags)])
        except SystemExit as ended:
            code = ended.code
        messages = capsys.readouterr()
        return json.loads(messages.out), code, messages.err

    return command


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A graph whose tables are large and whose triples are few."""
    folder = tmp_path_factory.mktemp("wide")
    for name, count in (("entities", ENTITIES), ("relations", RELATIONS)):
        (folder / f"{name}.txt").write_text("".join(f"{i}\t{name[0]}{i}\n" for i in range(count)))
    random = np.random.default_rng(0)
    for split in ("train", "valid", "test"):
        columns = [
            random.integers(0, bound, TRIPLES if split == "train" else 100) for bound in (ENTITIES, RELATIONS, ENTITIES)
        ]
        np.savetxt(folder / f"{split}.txt", np.stack(columns, 1), fmt="%d", delimiter="\t")
    return folder


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--flush", "p2f", "--cache_ratio", 0.2, "--cache_policy", "lfu", "--batch_size", 4096,
         "--neg_sample_size", 512],
        ["--test"],
        ["--model_name", "TransR", "--hidden_dim", 200],
        [*AGAINST_ALL, "--batch_size", 512, "--hidden_dim", 100, "--max_step", 2]],
    ids=["in place", "through a cache", "with a test", "with matrices", "against all entities, whose scores are held"])
def test_the_plan_is_what_a_run_takes(wide, tmp_path, flags):
    """In a process of its own, the peak of resident memory. A quarter of a GiB; the agreement is better for more."""
    runs = Runs(wide, tmp_path)
    arguments, folder = runs.arguments("--format", "udd_hrt", "--data_files", "entities.txt", "relations.txt",
                                       "train.txt", "valid.txt", "test.txt", "--hidden_dim", 400, "--max_step", 20,
                                       *flags)
    process = runs.process(arguments)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    result = json.loads((folder / "result.json").read_text())
    assert result["peak_host_bytes"] > ENTITIES * 800
    assert 0.9 < result["planned_host_bytes"] / result["peak_host_bytes"] < 1.1


def test_the_disk_is_what_a_run_writes(runs):
    folder = runs("--max_step", 3, "--checkpoint_interval", 1)
    written = sum(path.stat().st_size for path in folder.rglob("*.npy"))
    config = TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 20, "checkpoint_interval": 1})
    planned = plan_memory(config, GraphSize(1649, 368, 11397)).parts["disk"]
    assert planned["checkpoints"] == 2 * (planned["embeddings"] + 4 * (1649 + 368))
    assert written == pytest.approx(planned["embeddings"] + planned["checkpoints"] / 2, abs=1000)  # headers of files


@pytest.mark.parametrize("save_dtype", ["fp32", "fp16"])
def test_the_disk_of_a_run_without_checkpoints(runs, save_dtype):
    folder = runs("--max_step", 3, "--save_dtype", save_dtype)
    written = sum(path.stat().st_size for path in folder.rglob("*.npy"))
    config = TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 20, "save_dtype": save_dtype})
    planned = plan_memory(config, GraphSize(1649, 368, 11397)).parts["disk"]
    small = planned.pop("flags, names and metrics")
    assert planned.keys() == {"embeddings", "optimizer states"}
    assert written == pytest.approx(sum(planned.values()), abs=1000)
    others = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".npy")
    names = sum((folder / f"{role}.tsv").stat().st_size for role in ("entities", "relations"))
    assert others < small + names


def test_parts_grow_with_what_they_are_for():
    def parts(**flags):
        return plan_memory(
            TrainConfig.from_flags({"model_name": "TransE_l2", **flags}), GraphSize(10**6, 100, 10**7, 10**5)
        ).parts

    assert parts()["host"]["entity table"] == 10**6 * 416 * 4
    assert parts()["host"]["triples"] == 12 * 10**7
    assert parts(flush="p2f", cache_ratio=0.1)["host"]["entity cache"] == 10**5 * 416 * 4
    assert "entity cache" not in parts(flush="none")["host"]
    assert parts(flush="p2f", gpu=[0])["device"]["entity cache"] == 50_000 * 416 * 4  # of no GPU that could be asked
    assert parts(gpu=[0, 1])["device"]["entity cache"] == 50_000 * 416 * 4
    assert parts(gpu=[0, 0])["device"]["entity cache"] == 2 * 50_000 * 416 * 4
    assert parts(gpu=[0])["device"]["relation table"] == parts(gpu=[0, 1], parallel="rows")["device"]["relation table"]
    # Two regions for two ranks: an id, a mean square and a sum of each relation.
    collective = 2 * 2 * 4 * 100 * (1 + 401)
    for place in ("host", "device"):
        planned = parts(gpu=[0, 1], parallel="rows")[place]["collective of relations"]
        assert collective <= planned < collective + (64 << 10)  # with what ranks wait by
    assert parts(gpu=[0, 1])["host"]["interpreter"] == 2 * parts(gpu=[0])["host"]["interpreter"]
    assert parts(test=True)["host"]["evaluation"] > 36 * 8 * 10**6
    assert parts(model_name="TransR", hidden_dim=100)["host"]["projection table"] == 100 * 4 * 10016
    twice = 2 * parts()["host"]["training step"]  # but for what each thread has
    assert parts(batch_size=2048)["host"]["training step"] == pytest.approx(twice, rel=1e-3)


def test_what_does_not_fit_is_reported_with_what_would(monkeypatch):
    monkeypatch.setattr(available_memory, "host_bytes", lambda: 4 << 30)
    config = TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 400})
    size = GraphSize(10_000_000, 100, 1000)
    problem = plan_memory(config, size).problem
    assert problem.startswith("the run needs 15.56 GiB of host memory, but can have 4.00 GiB; --hidden_dim ")
    fitting = int(problem.split("--hidden_dim ")[1].split()[0])
    for hidden, fits in ((fitting, True), (fitting + 2, False)):
        assert (
            plan_memory(TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": hidden}), size).problem is None
        ) == fits
    monkeypatch.setattr(available_memory, "host_bytes", lambda: 1 << 20)
    assert "no --hidden_dim would fit" in plan_memory(config, size).problem
    monkeypatch.setattr(available_memory, "host_bytes", lambda: None)
    monkeypatch.setattr(available_memory, "disk_bytes", lambda *folders: 1 << 20)
    assert "of free disk space, but can have 1.0 MiB; free some space" in plan_memory(config, size).problem


def test_the_cache_that_would_fit_on_a_gpu_fits(monkeypatch):
    monkeypatch.setattr(available_memory, "host_bytes", lambda: 64 << 30)
    monkeypatch.setattr(available_memory, "disk_bytes", lambda *folders: None)
    monkeypatch.setattr(available_memory, "device_bytes", lambda index: 2 << 30)
    size = GraphSize(10_000_000, 100, 10_000_000)

    def problem(**given):
        return plan_memory(TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 400, "gpu": [0], **given}),
                           size).problem

    sentence = problem(cache_ratio=0.5)
    fitting = int(sentence.split("--cache_size ")[1].split("MiB")[0])
    assert sentence.endswith("MiB would fit") and 1024 < fitting < 2048
    assert problem(cache_size=fitting << 20) is None
    assert "--cache_size" in problem(cache_size=fitting + 2 << 20)
    assert "leave --flush none out" in problem(flush="none")
    assert "no --cache_size would fit: use a smaller --batch_size" in problem(cache_ratio=0.5, batch_size=1_000_000)


def evaluation_bytes(graph, **flags):
    """What ranking is planned to take in one process."""
    config = TrainConfig.from_flags({"model_name": "TransE_l2", "hidden_dim": 10, "test": True, **flags})
    return plan_memory(config, graph).parts["host"]["evaluation"]


def test_the_memory_of_ranking_is_counted():
    """36 bytes of a known triple, of 8 million at most, 12 of an entity, and three rows of a query, of 65,536 at most;
    of sampled candidates ids of 256 groups twice, and their rows, of which 128 MiB at most are gathered."""
    assert evaluation_bytes(GraphSize(1000, 10, 5000, 300)) == 36 * 5000 + 12 * 1000 + 3 * 300 * 10 * 4
    assert evaluation_bytes(GraphSize(1000, 10, 10**9, 10**8)) == 36 * 8_000_000 + 12 * 1000 + 3 * 65536 * 10 * 4
    whole = evaluation_bytes(GraphSize(1000, 10, 5000, 300))
    some = evaluation_bytes(GraphSize(1000, 10, 5000, 300), neg_sample_size_eval=50)
    assert some == whole + 2 * 256 * 8 * 50 + 300 * 50 * 10 * 4
    large = GraphSize(10**6, 10, 5000, 300)
    most = evaluation_bytes(large, neg_sample_size_eval=10**6 - 1)
    assert most == evaluation_bytes(large) + 2 * 256 * 8 * (10**6 - 1) + (128 << 20)
    assert evaluation_bytes(large, neg_sample_size_eval=10**12) == evaluation_bytes(large)  # all entities, none sampled


def test_validation_is_counted_as_a_test_is():
    graph = GraphSize(1000, 10, 5000, 300)
    assert evaluation_bytes(graph, test=False, valid=True) == evaluation_bytes(graph)
    config = TrainConfig.from_flags({"model_name": "TransE_l2"})
    assert "evaluation" not in plan_memory(config, graph).parts["host"]


@pytest.mark.parametrize("flags", [{}, {"num_proc": 2}, {"num_proc": 2, "flush": "p2f"}, {"neg_sample_size": "all"}])
def test_a_batch_is_no_larger_than_the_graph(flags):
    """As csrc/sampler has it: whole chunks of 256, of 8,544 triples 33."""
    def parts(batch_size):
        config = TrainConfig.from_flags({"model_name": "DistMult", "batch_size": batch_size, **flags})
        return plan_memory(config, GraphSize(1649, 368, 11397, training=8544)).parts

    assert parts(10**9) == parts(8544 if flags.get("neg_sample_size") == "all" else 33 * 256)


@pytest.mark.parametrize("batch, chunk, triples", [
    (1024, 256, 8544), (10**9, 256, 8544), (1000, 256, 8544), (100, 256, 8544), (10**9, 256, 100), (300, 256, 100),
    (8544, 256, 8544)])
def test_batches_are_planned_as_the_sampler_makes_them(batch, chunk, triples):
    ids = np.arange(triples)
    sampler = Sampler(ids, ids, ids, triples, triples, SamplerConfig(batch, chunk, 0))
    planned = TrainConfig.from_flags({"batch_size": batch, "neg_sample_size": chunk}).limited_to(triples).batch
    assert (planned.positives, planned.chunk) == (sampler.batch_size, sampler.chunk_size)


def test_several_processes_on_the_cpu_have_engine_and_cache():
    """Of each what it knows of its slots; one engine for both, with what is on its way to the host."""
    config = TrainConfig.from_flags({"model_name": "DistMult", "hidden_dim": 8, "num_proc": 2, "batch_size": 64,
                                     "neg_sample_size": 8})
    host = plan_memory(config, GraphSize(10**6, 10, 10**6)).parts["host"]
    assert host["cache index"] == 2 * (8 * 50_000 + 10**6 // 6)
    planner = 2 * 16 * 50_000 + 4 * 10**6  # slots, and a place for each entity
    staging = 2 * 8 * 192 * 128  # of eight steps
    assert (3 << 20) + planner + staging < host["flush engine"] < (4 << 20) + planner + staging
    assert host["entity cache"] == 2 * 50_000 * 128


def test_the_disk_is_what_is_free_and_what_checkpoints_of_the_run_give_up(tmp_path, monkeypatch):
    """Tables of other runs in the same folder are not replaced, nor are the saved ones of the run before the new ones
    are there; a file that goes meanwhile, as of a link that leads nowhere, counts nothing."""
    monkeypatch.setattr(available_memory.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    run = tmp_path / "ckpts" / "run"
    for name in ("other/big.npy", "run/g_entity.npy", "run/optimizer/step-1/entity_state.npy",
                 "run/checkpoints/step-1/entity.npy"):
        (tmp_path / "ckpts" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ckpts" / name).write_bytes(bytes(50))
    (tmp_path / "ckpts" / "moved.npy").symlink_to("/nowhere/moved.npy")
    (run / "checkpoints" / "moved.npy").symlink_to("/nowhere/moved.npy")

    def available(folder=None):
        config = TrainConfig.from_flags({"model_name": "TransE_l2", "save_path": str(tmp_path / "ckpts")})
        return plan_memory(config, GraphSize(10, 10, 100), folder).available["disk"]

    assert available() == 1000
    assert available(run) == 1050


def test_the_names_that_a_run_writes_are_counted(runs):
    folder = runs("--max_step", 1)
    names = sum((folder / f"{role}.tsv").stat().st_size for role in ("entities", "relations"))
    graph = load_graph("small", *(json.loads((folder / "config.json").read_text())[key] for key in
                                  ("data_path", "format", "data_files")))
    assert names <= graph_size(graph).name_maps < 1.1 * names
    config = TrainConfig.from_flags({"model_name": "TransE_l2"})
    assert plan_memory(config, graph_size(graph)).parts["host"]["names"] == graph_size(graph).name_maps
    assert graph_size(graph).training == len(graph.train) < graph_size(graph).triples


def test_a_gpu_that_cannot_be_asked_is_reported_to(capsys, monkeypatch):
    monkeypatch.setattr(available_memory, "device_bytes", lambda gpu: None)
    size = ["plan", "--entities", "1000", "--gpu", "0", "--model_name", "DistMult"]
    main(size)
    assert "GPU 0 cannot be asked here how much memory it has" in (messages := capsys.readouterr().out)
    assert "a cache of 5% of the entities is assumed" in messages
    main([*size, "--json", "--cache_ratio", "0.5"])
    messages = json.loads(capsys.readouterr().out)["assumed"]
    assert "cannot be asked here" in messages and "5%" not in messages
    main([*size[:3], "--json"])
    assert json.loads(capsys.readouterr().out)["assumed"] is None


def test_a_run_that_does_not_fit_does_not_begin(runs, monkeypatch, refused, tmp_path):
    monkeypatch.setattr(available_memory, "host_bytes", lambda: memory_plan.INTERPRETER_BYTES)
    with refused("of host memory, but can have"):
        runs("--max_step", 3)
    assert not any(tmp_path.iterdir())


def test_the_command(plan, small, capsys):
    found, code, _ = plan("--entities", 1000, "--relations", 10, "--triples", 5000, "--model_name", "TransE_l2",
                          "--data_path", "nowhere")
    assert code == 0 and found["fits"] and found["host"]["parts"]["entity table"] == 1000 * 1664
    found, code, error = plan("--dataset", "wikikg90Mv2", "--data_path", "nowhere", "--hidden_dim", 4000)
    assert code == 2 and not found["fits"] and found["problem"] in error
    assert found["host"]["parts"]["triples"] == 12 * 601_062_811
    main(["plan", "--dataset", "small", "--format", "raw_udd_hrt", "--data_path", str(small), "--data_files",
          "train.txt"])
    assert "entity table" in capsys.readouterr().out
    found, code, error = plan("--preset", "auto/ComplEx", "--dataset", "small", "--format", "raw_udd_hrt",
                              "--data_path", small, "--data_files", "train.txt")
    assert code == 0 and found["fits"] and "--preset auto/ComplEx for" in error  # apart from the JSON


def test_a_preset_that_reads_a_graph_does_not_go_with_one_that_is_not_there(refused):
    with refused("--preset auto goes by a graph that is there"):
        main(["plan", "--entities", "5", "--preset", "auto/ComplEx"])


@pytest.mark.parametrize("flags", [["--triples", "0"], ["--triples", "-1"], ["--relations", "0"]])
def test_a_graph_of_no_size_is_refused(flags, refused):
    with refused("--triples must be at least 1"):
        main(["plan", "--entities", "5", *flags])


def test_what_is_free_is_known_here():
    """At least what this process holds already; no more than the machine has."""
    total = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    assert 0 < available_memory.host_bytes() < 1.01 * total
    assert available_memory.device_bytes(-1) is None


def test_the_limit_of_a_control_group_counts(monkeypatch):
    """Version 2: a limit of 1 GB, 700 MB used of which 300 MB are cached files, leaves 600 MB."""
    files = {
        "/proc/self/cgroup": "0::/job",
        "/sys/fs/cgroup/job/memory.max": "1000000000",
        "/proc/meminfo": "MemAvailable: 9000000 kB",
        "/sys/fs/cgroup/job/memory.current": "700000000",
        "/proc/self/status": "RssAnon: 1000 kB",
        "/sys/fs/cgroup/job/memory.stat": "anon 1\nactive_file 100000000\ninactive_file 200000000"}
    monkeypatch.setattr(available_memory, "_lines", lambda path: files.get(str(path), "").splitlines())
    assert available_memory.host_bytes() == 600_000_000 + 1_024_000


def test_the_limits_of_the_process_count(monkeypatch):
    """ulimit -v of 1 GB, of which 400 MB are taken, and ulimit -d of 900 MB, of which 100 MB are."""
    files = {"/proc/meminfo": "MemAvailable: 9000000 kB",
             "/proc/self/status": "VmSize: 400000 kB\nVmData: 100000 kB\nRssAnon: 1000 kB"}
    limits = {resource.RLIMIT_AS: 1_024_000_000, resource.RLIMIT_DATA: 921_600_000}
    monkeypatch.setattr(available_memory, "_lines", lambda path: files.get(str(path), "").splitlines())
    monkeypatch.setattr(available_memory.resource, "getrlimit", lambda limit: (limits[limit], limits[limit]))
    assert available_memory.free_host_bytes() == 614_400_000
    assert available_memory.host_bytes() == 614_400_000 + 1_024_000
    limits[resource.RLIMIT_DATA] = 102_400_000  # nothing is left
    assert available_memory.free_host_bytes() == 0
    limits.update({limit: resource.RLIM_INFINITY for limit in limits})
    assert available_memory.free_host_bytes() == 9_216_000_000
