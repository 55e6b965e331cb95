"""dglke_frugal.train: the flags of dglke_train as keywords, and a run that can be asked."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import dglke_frugal
from dglke_frugal.data import load_graph
from dglke_frugal.errors import InputError
from dglke_frugal.models import TorchModel

FILES = [f"{split}.tsv" for split in ("train", "valid", "test")]


@pytest.fixture
def flags(tmp_path):
    """Of a small graph with a pattern."""
    for file in FILES:
        (tmp_path / file).write_text("".join(f"e{i}\tnext\te{(i + 1) % 30}\n" for i in range(30)))
    return dict(dataset="ring", data_path=tmp_path, format="raw_udd_hrt", data_files=tuple(FILES), hidden_dim=8,
                model_name="TransE_l2", batch_size=10, neg_sample_size=5, max_step=40, seed=1, preset=None,
                save_path=tmp_path / "runs")


def test_it_returns_what_load_gives(flags, tmp_path):
    run = dglke_frugal.train(**flags, test=True, neg_adversarial_sampling=True)
    assert run.folder == tmp_path / "runs" / "TransE_l2_ring_0" and run.config["neg_adversarial_sampling"] is True
    assert run.tails("e3", "next", 3) == dglke_frugal.load(run.folder).tails("e3", "next", 3)


def test_the_same_bits_as_the_command(flags, tmp_path):
    run = dglke_frugal.train(**flags)
    command = [sys.executable, "-m", "dglke_frugal", "train", "--config", str(run.folder / "config.yaml"),
               "--save_path", str(tmp_path / "again")]
    subprocess.run(command, check=True, capture_output=True)
    again = dglke_frugal.load(tmp_path / "again" / "TransE_l2_ring_0")
    np.testing.assert_array_equal(again.model.entity, run.model.entity)


def test_flags_from_a_file_and_a_run_that_goes_on(flags, tmp_path):
    path = tmp_path / "flags.yaml"
    path.write_text("max_step: 10\ncheckpoint_interval: 10\n")
    rest = {name: value for name, value in flags.items() if name not in ("max_step", "preset")}
    run = dglke_frugal.train(config=path, **rest)
    longer = dglke_frugal.train(resume=run.folder, max_step=40)
    assert longer.folder == run.folder
    np.testing.assert_array_equal(longer.model.entity, dglke_frugal.train(**flags).model.entity)


@pytest.mark.parametrize("result", ["{}", '{"steps": 3, "seconds": {"training": "long"}}', '{"steps": "many"}', '{"st'])
def test_a_damaged_result_is_one_sentence(flags, result):
    run = dglke_frugal.train(**flags)
    (run.folder / "result.json").write_text(result)
    with pytest.raises(InputError, match="result.json.*; remove it to go on from the last checkpoint"):
        run.summary()
    (run.folder / "result.json").write_text('{"steps": 3, "test": {"MRR": 0.5}}')
    assert "3 steps" in run.summary()


def test_the_newest_run_goes_on_or_a_new_one_begins(flags):
    first = dglke_frugal.train(resume="auto", **flags)
    assert first.summary().startswith("TransE_l2 on ring: 40 steps")
    again = dglke_frugal.train(resume="auto", **{**flags, "max_step": 50})
    assert again.folder == first.folder and again.summary().startswith("TransE_l2 on ring: 50 steps")


def test_flags_go_by_the_graph_s_size_unless_others_are_wanted(flags):
    given = {name: flags[name] for name in ("dataset", "data_path", "format", "data_files", "save_path", "seed")}
    run = dglke_frugal.train(**given, max_step=4)
    assert run.config["model_name"] == "ComplEx" and run.config["neg_sample_size"] == "all"
    assert run.config["early_stop_patience"] and run.config["max_step"] == 4
    bare = dglke_frugal.train(**given, max_step=4, preset=None, hidden_dim=8)
    assert bare.config["model_name"] == "TransE" and not bare.config["valid"]


def test_several_ranks(flags):
    run = dglke_frugal.train(**{**flags, "max_step": 5}, num_proc=2)
    assert run.config["num_proc"] == 2 and run.tails("e0", "next")


@pytest.mark.parametrize("name, value, kept", [
    ("lr", np.logspace(-2, 0, 3)[1], 0.1),
    ("lr", np.float32(0.1), float(np.float32(0.1))),
    ("lr", np.longdouble(0.25), 0.25),
    ("lr", np.array(0.1), 0.1),
    ("lr", torch.tensor(0.5), 0.5),
    ("hidden_dim", np.int64(6), 6),
    ("hidden_dim", torch.tensor(6), 6),
    ("seed", np.uint32(7), 7),
    ("reciprocal", np.bool_(True), True),
    ("reciprocal", torch.tensor(True), True),
    ("cuda_graphs", np.bool_(False), False),
    ("gpu", np.array([-1]), [-1]),
    ("gpu", torch.tensor([-1]), [-1]),
    ("lr_decay_at", np.array([2, 3]), [2, 3]),
    ("lr_decay_at", range(2, 4), [2, 3]),
    ("data_files", np.array(FILES[:1]), FILES[:1]),
    ("data_files", [Path(FILES[0])], FILES[:1]),
    ("data_files", iter(FILES[:1]), FILES[:1]),
    ("delimiter", np.str_("\t"), "\t")])
def test_values_of_numpy_and_torch_and_paths(flags, name, value, kept):
    run = dglke_frugal.train(**{**flags, "max_step": 4, name: value})
    assert run.config[name] == kept and type(run.config[name]) is type(kept)


@pytest.mark.parametrize("change, says", [
    (dict(hiden_dim=3), r"train\(\) has no flag 'hiden_dim'; did you mean 'hidden_dim'\?"),
    (dict(adv=True), "has no flag 'adv'"),
    (dict(deterministic=True), "has no flag 'deterministic': runs are always deterministic; leave it out$"),
    (dict(backend="vanilla"), "has no flag 'backend'"),
    (dict(lr="fast"), r"train\(\): argument --lr: invalid float value: 'fast'$"),
    (dict(lr=-1), "--lr is -1"),
    (dict(gpu=[0, "x"]), "argument --gpu: invalid int value"),
    (dict(lr={"a": 1}), r"train\(\): 'lr' is {'a': 1}; it must be a value"),
    (dict(model_name="TransX"), "there is no model 'TransX'"),
    (dict(model_name=type("Made", (TorchModel,), {})), "the class Made, which .* does not have under this name"),
    (dict(model_name=type("TorchModel", (TorchModel,), {})), "the class TorchModel, which .* does not have"),
    (dict(no_save_emb=True), "give no_save_emb=False"),
    (dict(reciprocal="true"), r"train\(\): 'reciprocal' is 'true'; give True or False$"),
    (dict(lr=np.array([0.1])), r"'lr' is \[0.1\]; it takes one value"),
    (dict(gpu=np.array([[0]])), r"'gpu' is \[0\]; it must be a value or a list of values"),
    (dict(hidden_dim=np.float64(8)), "invalid int value: '8.0'"),
    (dict(lr=np.float32("nan")), "--lr is nan"),
    (dict(data_files={"train.tsv"}), "must be a value or a list of values"),
    (dict(data_files=[b"train.tsv"]), "give text rather than bytes"),
    (dict(data_path=b"."), "give text rather than bytes"),
    (dict(resume=""), "--resume is empty"),
    (dict(preset=""), "--preset is empty"),
    (dict(config="a.yaml", resume="b"), "--resume cannot be used with --config"),
    (dict(data_path="/nowhere"), "/nowhere/train.tsv does not exist")])
def test_what_cannot_be_used_is_one_sentence(flags, tmp_path, capsys, change, says):
    with pytest.raises(InputError, match=says):
        dglke_frugal.train(**{**flags, **change})
    assert not capsys.readouterr().err and not (tmp_path / "runs").exists()


def test_a_switch_of_a_file_or_of_the_run_is_turned_off(flags, tmp_path):
    (tmp_path / "flags.yaml").write_text("reciprocal: true\nno_save_emb: true\ncheckpoint_interval: 2\n")
    with pytest.raises(InputError, match="give no_save_emb=False"):
        dglke_frugal.train(config=tmp_path / "flags.yaml", **flags)
    run = dglke_frugal.train(config=tmp_path / "flags.yaml", **flags, reciprocal=False, no_save_emb=np.False_)
    assert run.config["reciprocal"] is run.config["no_save_emb"] is False


def test_the_package_says_what_it_has():
    assert {"train", "load", "__version__"} <= set(dir(dglke_frugal)) and dglke_frugal.__version__[0].isdigit()
    assert (Path(dglke_frugal.__file__).parent / "py.typed").is_file()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dglke_frugal.nothing


# ---- triples in Python, and what is reported

RING = [(f"e{i}", name, f"e{(i + far) % 30}") for name, far in (("next", 1), ("far", 7)) for i in range(30)]
SMALL = dict(hidden_dim=8, model_name="TransE_l2", batch_size=10, neg_sample_size=5, seed=1)


def test_triples_give_a_run_that_other_processes_load(tmp_path, capsys):
    run = dglke_frugal.train(RING, split=(0.8, 0.1, 0.1), **SMALL, max_step=40, save_path=tmp_path, preset=None)
    assert run.config["valid"] is run.config["test"] is True
    messages = capsys.readouterr().out
    assert len(messages.splitlines()) == 1 and messages.startswith("TransE_l2 on graph: 40 steps (8.3 epochs) in ")
    assert f"; test MRR {run.metrics['MRR']:.4f}" in messages and messages.strip().endswith(str(run.folder))
    code = (f"import dglke_frugal; run = dglke_frugal.load({str(run.folder)!r}); print(run.metrics['MRR'], "
            "run.tails('e3', 'next', 2, exclude_known=True).names)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == f"{run.metrics['MRR']} {run.tails('e3', 'next', 2, exclude_known=True).names}\n"


def test_what_is_given_and_what_lies_in_a_folder_are_trained_alike(tmp_path):
    ids = np.array([(int(h[1:]), int(r == "far"), int(t[1:])) for h, r, t in RING])
    by_ids = dglke_frugal.train(ids, **SMALL, max_step=20, save_path=tmp_path / "a")
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "train.csv").write_text("".join(f"{h},{r},{t}\n" for h, r, t in ids.tolist()))
    by_file = dglke_frugal.train(tmp_path / "ring", **SMALL, max_step=20, save_path=tmp_path / "b")
    np.testing.assert_array_equal(by_ids.model.entity, by_file.model.entity)  # which number the same names alike
    assert by_ids.config["valid"] is by_file.config["test"] is False and by_file.config["dataset"] == "ring"
    longer = dglke_frugal.train(resume=by_ids.folder, max_step=30)
    assert longer.summary().startswith("TransE_l2 on graph: 30 steps")


def test_valid_and_test_are_triples_or_switches(tmp_path):
    given = dglke_frugal.train(RING[5:], valid=RING[:2], test=RING[2:5], **SMALL, max_step=4, save_path=tmp_path)
    assert len(given.metrics.triples[0]) == 3 and len(given.evaluate("valid").triples[0]) == 2
    off = dglke_frugal.train(RING[5:], valid=RING[:2], test=False, **SMALL, max_step=4, save_path=tmp_path)
    assert off.config["valid"] is True and off.config["test"] is False and len(off.metrics.triples[0]) == 2


@pytest.mark.parametrize("given, says", [
    (dict(triples=RING, data_path="x"), "triples are given, and data_path names other ones"),
    (dict(triples=RING, resume="x"), "triples are given, and resume names other ones"),
    (dict(valid=RING), "valid goes with triples"),
    (dict(triples=RING, valid=True), "valid=True ranks triples that are not given; give valid="),
    (dict(split=(0.8, 0.1, 0.1)), "split divides triples; give triples"),
    (dict(triples=RING, verbose="yes"), "verbose is 'yes'; give True or False"),
    (dict(triples=RING, callbacks=[3]), "a callback is 3; give functions"),
    (dict(triples=RING, callbacks=3), "a callback is 3; give functions"),
    (dict(triples=RING, callbacks=None), "a callback is None; give functions"),
    (dict(triples=RING, callbacks=print), "callbacks are called after validations, and there are none: give valid="),
    (dict(triples=RING, preset="wn18rr/complex"), "leave out what asks for them, --test or a --preset that has it"),
    (dict(triples=RING, valid=RING[:5], eval_interval=9, max_step=4, callbacks=print),
     "--eval_interval 9 is more than --max_step 4; give a smaller one, or more steps"),
    (dict(triples=RING, valid=RING[:5], eval_interval=99, max_epoch=1, callbacks=print),
     "--eval_interval 99 is more than --max_step [0-9]+; give"),
    (dict(triples=RING, has_edge_importance=True), "has_edge_importance is of files .*; leave it out, or give triples"),
    (dict(triples="ring.tsv", split=(0.8, 0.1, 0.1), delimiter="|"), "delimiter is of files"),
    (dict(triples=RING, row_dtype=np.float16), "argument --row_dtype: invalid choice: .*numpy.float16"),
    (dict(triples=RING, max_epoch=3, max_step=4), "--max_step and --max_epoch both say"),
    (dict(triples=RING, max_epoch=-1), "--max_epoch is -1"),
    (dict(triples=RING, max_epoch=1, eval_interval="2 weeks"), "'2 weeks' is neither a number of steps nor of"),
    (dict(triples=RING, early_stop_delta=-0.5), "--early_stop_delta is -0.5")])
def test_triples_that_cannot_be_used_are_one_sentence(tmp_path, given, says):
    with pytest.raises(InputError, match=says):
        dglke_frugal.train(**{**SMALL, "save_path": tmp_path / "runs", **given})
    assert not (tmp_path / "runs").exists()


def test_lines_go_to_the_logger_or_are_printed(tmp_path, capsys, caplog):
    caplog.set_level("INFO", logger="dglke_frugal.train")
    dglke_frugal.train(RING, **SMALL, max_step=4, save_path=tmp_path)
    assert "Finished. Read 60 train triples." in caplog.messages and len(capsys.readouterr().out.splitlines()) == 1
    caplog.clear()
    dglke_frugal.train(RING, **SMALL, max_step=4, save_path=tmp_path, verbose=True)
    assert "Finished. Read 60 train triples.\n" in capsys.readouterr().out and not caplog.messages


def test_standard_output_is_what_it_was_after_trainings_in_several_threads(tmp_path, capsys):
    """The first to begin is the first to end; one of them runs at a time."""
    waits, began, ended, before = threading.Event(), threading.Event(), threading.Event(), sys.stdout

    def first(validation):
        waits.set()
        assert began.wait(60)

    def second(validation):
        began.set()
        assert ended.wait(60)

    def train(name, callback):
        dglke_frugal.train(RING[5:], valid=RING[:5], **SMALL, max_step=4, eval_interval=4, callbacks=callback,
                           save_path=tmp_path / name)
        if callback is first:
            ended.set()

    threads = [threading.Thread(target=train, args=(each.__name__, each)) for each in (first, second)]
    threads[0].start()
    assert waits.wait(60)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert sys.stdout is before
    assert [line.partition(" on ")[0] for line in capsys.readouterr().out.splitlines()] == ["TransE_l2"] * 2


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_process_without_standard_output_trains(tmp_path, closed):
    code = ("import sys, dglke_frugal\n"
            "assert sys.stdout is None\n"
            f"run = dglke_frugal.train({RING!r}, valid={RING[:5]!r}, **{SMALL!r}, max_step=4, eval_interval=2,\n"
            f"                         callbacks=lambda validation: print(1), save_path={str(tmp_path)!r})\n"
            "assert sys.stdout is None and run.config['max_step'] == 4\n")
    done = subprocess.run(["bash", "-c", f'exec "$@" {closed}', "bash", sys.executable, "-c", code],
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def test_callbacks_are_told_of_validations_and_may_stop(tmp_path, capsys):
    seen = []

    def call(validation):
        print("called")
        seen.append(validation)
        return np.bool_(validation.step >= 12)  # as what NumPy compares

    run = dglke_frugal.train(RING[5:], valid=RING[:5], **SMALL, max_epoch=10, callbacks=call, save_path=tmp_path)
    assert [validation.step for validation in seen] == [5, 10, 15]  # an epoch is 5.5 steps, of which 5 are whole
    assert seen[0].folder.resolve() == run.folder
    assert set(seen[0].metrics) == {"MRR", "MR", "HITS@1", "HITS@3", "HITS@10"}
    messages = capsys.readouterr().out.splitlines()
    assert (messages[:-1] == ["called"] * 3 and ": 15 steps (2.7 epochs) in " in messages[-1]
            and ", stopped early" in messages[-1])


def test_help_and_completion_know_every_flag():
    import inspect

    from dglke_frugal.options import OPTIONS

    known = inspect.signature(dglke_frugal.train).parameters
    assert {*OPTIONS, "triples", "split", "resume", "preset", "config", "verbose", "callbacks"} <= {*known}
    assert known["hidden_dim"].annotation == "Optional[int]" and "Literal['Hinge'" in known["loss_genre"].annotation


def test_every_path_may_begin_at_the_home_folder(flags, tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home" / "flags.yaml").write_text("data_path: ~/\nsave_path: ~/runs\ncheckpoint_interval: 20\n")
    for file in FILES:
        (tmp_path / file).rename(tmp_path / "home" / file)
    flags = {name: value for name, value in flags.items() if name not in ("data_path", "save_path", "preset")}
    files = [f"~/{file}" for file in FILES]
    run = dglke_frugal.train(config="~/flags.yaml", **{**flags, "data_files": files})
    assert run.folder == tmp_path / "home" / "runs" / "TransE_l2_ring_0"
    assert dglke_frugal.train(resume="~/runs/TransE_l2_ring_0", max_step=50).folder == run.folder
    begun = dglke_frugal.train(config="~/flags.yaml", **{**flags, "init_from": "~/runs/TransE_l2_ring_0"})
    given = dglke_frugal.train("~/" + FILES[0], model_name="TransE_l2", hidden_dim=8, max_step=1, preset=None,
                               save_path="~/runs")
    assert {begun.folder.parent, given.folder.parent} == {run.folder.parent}
    dglke_frugal.load("~/runs/TransE_l2_ring_0", data_path="~").export("~/out.npz")
    assert (tmp_path / "home" / "out.npz").is_file()
    graph = load_graph("ring", "~", "raw_udd_hrt", files, cache="~")
    assert len(graph.train) == 30 and list((tmp_path / "home").glob(".ring*.frugal"))
    table = dglke_frugal.Embedding(3, 2, optimizer=dglke_frugal.optim.Adagrad(lr=0.1))
    table.save("~/rows.npy")
    table.load(tmp_path / "home" / "rows.npy")
    assert not list(tmp_path.glob("~*"))


def test_a_path_that_is_there_means_itself(flags, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for folder in ("home", "~"):
        run = dglke_frugal.train(**{**flags, "save_path": "~/runs"})
        assert run.folder.parent == tmp_path / folder / "runs"
        (tmp_path / "~" / "runs").mkdir(parents=True, exist_ok=True)
