"""A machine that fails ends all others with a sentence that names it, and the run goes on from its checkpoint."""
import random
import shutil
import signal
import socket
import sys
import time
from types import SimpleNamespace

import pytest
from training.machines.conftest import KILLS, at_step
from training.parallel.conftest import NEEDS_METIS, assert_same, trained, wait_for

from dglke_frugal.training.checkpoint.lock import alone
from dglke_frugal.training.machines import group

KILL, STOP = ("os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGSTOP)")

# When all have come, since one that comes later would find no rendezvous, or be what the others wait for.
KILLED_WHEN_ALL_CONNECT = """
from dglke_frugal.training.machines.group import Machines
meet = Machines._watch_from_now_on
def killed(self):
    meet(self)
    while len(self._watch.heard_of()) < self.machines:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
if os.environ["RANK"] == "{victim}":
    Machines._watch_from_now_on = killed
"""


def sentence_of(outputs):
    """The last lines of the machines that could say something, without what a checkpoint adds."""
    return [output.strip().splitlines()[-1] if output.strip() else "" for output in outputs]


@pytest.mark.parametrize("count, victim, step", [(2, 0, 9), (3, 1, 7), (3, 2, 1)])
def test_a_killed_machine_is_named_and_the_run_goes_on_to_the_bit(machines, count, victim, step):
    arguments, folder = machines.arguments("--max_step", 14, "--checkpoint_interval", 3)
    processes = machines.start_all(count, arguments, suffering=at_step(step, victim, KILL))
    processes[victim].wait(timeout=120)
    died = time.monotonic()
    codes, outputs = machines.end_all(processes)
    assert time.monotonic() - died < 120  # a busy machine's; the timeout is 10
    for machine in set(range(count)) - {victim}:
        assert codes[machine] == 1
        assert f"machine {victim} (" in sentence_of(outputs)[machine], outputs[machine]
        if step > 3:
            assert f"--resume {folder}" in sentence_of(outputs)[machine]
    folder, _ = machines.run_all(count, "--max_step", 14, resume=folder)
    one, _ = machines.run("--max_step", 14, "--partition", "hash", "--num_proc", count)
    assert_same(trained(folder), trained(one))


TOLD_TO_END = """
import threading
import dglke_frugal.training.machines.group as group
explain = group._Watch.explain
class Told:
    def __init__(self, event):
        self.event = event
    def __getattr__(self, name):
        return getattr(self.event, name)
    def wait(self, *given):
        if threading.current_thread() is threading.main_thread():
            os.kill(os.getpid(), signal.SIGTERM)
        return self.event.wait(*given)
def told_to_end(watch):
    watch._stop = Told(watch._stop)
    explain(watch)
group._Watch.explain = told_to_end
"""


def test_a_machine_says_why_it_ends_before_torchrun_ends_it(machines):
    """As torchrun does when its rendezvous has gone, with the machine that was killed."""
    arguments, _ = machines.arguments("--max_step", 14)
    processes = machines.start_all(2, arguments, suffering=at_step(7, 0, KILL), first=TOLD_TO_END)
    codes, outputs = machines.end_all(processes)
    assert codes[1] == 1 and "machine 0 (" in sentence_of(outputs)[1], (codes, outputs)


WITHOUT_READERS = """
if os.environ["RANK"] == "0":
    reads, writes = os.pipe()
    os.dup2(writes, 2)
    os.close(reads)
"""


def test_a_machine_ends_with_the_others_although_nobody_reads_what_it_says(machines):
    """As after the end of a terminal, or of torchrun."""
    arguments, _ = machines.arguments("--max_step", 14, "--machine_timeout", 3)
    first, second = machines.start_all(2, arguments, suffering=at_step(8, 1, STOP), first=WITHOUT_READERS)
    try:
        first.communicate(timeout=120)  # else it would wait for the other one for ever
    finally:
        first.kill()
        second.kill()
        second.communicate()
    assert first.returncode == 1


@pytest.mark.parametrize("victim", [0, 1])
def test_a_machine_killed_while_the_machines_connect_is_named(machines, victim):
    """In one sentence for each of the others, without what torch's sockets have to say, and within the timeout."""
    arguments, _ = machines.arguments("--max_step", 14, "--machine_timeout", 5)
    machines.interpreter = sys.executable  # which has torch print as the package sets it up
    processes = machines.start_all(3, arguments, first=KILLED_WHEN_ALL_CONNECT.format(victim=victim))
    codes, outputs = machines.end_all(processes)
    for machine in {0, 1, 2} - {victim}:
        assert codes[machine] == 1
        assert f"machine {victim} (" in sentence_of(outputs)[machine], outputs[machine]
        assert "frame #" not in outputs[machine]


@pytest.mark.parametrize("kind, seed", [("kill", seed) for seed in range(KILLS)] +
                         [("stop", seed) for seed in range(-(-KILLS // 4))])
def test_killed_or_stopped_at_random_moments_it_goes_on_to_the_bit(machines, kind, seed):
    """Wherever a machine is: connecting, loading, training, in the middle of a checkpoint."""
    chance = random.Random(seed)
    arguments, folder = machines.arguments("--max_step", 60, "--checkpoint_interval", 7, "--resume", "auto",
                                           "--machine_timeout", 4)
    count = chance.choice([2, 3])
    processes = machines.start_all(count, arguments)
    if seed % 3 != 2:  # else it may not have come, for which the others wait a minute
        wait_for(processes[0], "machines train together")
    time.sleep(chance.uniform(0, 1))
    victim = chance.randrange(count)
    processes[victim].send_signal(signal.SIGKILL if kind == "kill" else signal.SIGTSTP)
    if kind == "stop":
        machines.end_all([process for machine, process in enumerate(processes) if machine != victim])
        processes[victim].send_signal(signal.SIGCONT)
    codes, outputs = machines.end_all(processes)
    if codes[victim]:  # else it had ended
        for machine in set(range(count)) - {victim}:
            # 0: of one that had done its part before the other was killed
            assert codes[machine] in (0, 1, 2) and "Traceback" not in outputs[machine], outputs
    # Which nobody stops, however rarely a busy machine lets a machine be heard of.
    codes, outputs = machines.end_all(machines.start_all(count, [*arguments, "--machine_timeout", 60]))
    assert codes == [0] * count, outputs
    one, _ = machines.run("--max_step", 60, "--partition", "hash", "--num_proc", count)
    (folder,) = [each for each in folder.parent.iterdir() if (each / "result.json").exists()]
    assert_same(trained(folder), trained(one))


class Ended(Exception):
    """With the sentence of a machine that ends."""


@pytest.fixture
def watch(monkeypatch):
    """Of machine 1 of 3, whose threads do not run; a rendezvous that answered long ago."""
    def end(_, sentence):
        raise Ended(sentence)

    monkeypatch.setattr(group._Watch, "_end", end)
    monkeypatch.setattr(group._Watch, "fail", lambda watch, sentence: setattr(watch, "_sentence", sentence))
    watch = object.__new__(group._Watch)
    looks = iter([False, True])
    watch._patience, watch._stop = group.LOST_SECONDS, SimpleNamespace(wait=lambda seconds: next(looks))
    watch._began = watch._said = time.monotonic() - 1000
    watch._group = SimpleNamespace(machine=1, machines=3, place="", name=lambda machine: f"machine {machine}")
    return watch


@pytest.mark.parametrize("silent_before, named", [(0.7, "machine 0"), (0.9, "machine 2")])
def test_which_machine_is_named_when_the_rendezvous_has_gone(watch, silent_before, named):
    """Machine 0, which serves it, unless another one was silent for as long as machine 0 waits; a beat that was late
    does not count. silent_before: seconds of machine 2's silence when the rendezvous went."""
    watch._heard = {0: watch._said, 1: watch._said, 2: watch._said - silent_before}
    with pytest.raises(Ended, match=f"^{named}"):
        watch._look()


def test_nobody_is_named_for_silence_while_the_rendezvous_does_not_answer(watch):
    """However little is left of the time for which it may be silent itself."""
    watch._said = time.monotonic() - 0.95 * group.LOST_SECONDS
    watch._heard = {0: watch._said, 1: watch._said, 2: watch._said - group.BEAT_SECONDS}
    try:
        watch._look()
    except Ended as ended:  # of a busy machine
        assert str(ended).startswith("machine 0"), ended


def test_a_machine_that_is_silent_while_the_rendezvous_answers_is_named(watch):
    watch._said = time.monotonic()
    watch._heard = {0: watch._said, 1: watch._said, 2: watch._said - 1.1 * group.LOST_SECONDS}
    with pytest.raises(Ended, match="^machine 2"):
        watch._look()


def test_a_machine_has_read_why_all_end_before_it_says_that_it_knows(watch):
    """The store goes with machine 0, as soon as all know."""
    def gone(*_):
        raise RuntimeError("the store has gone")

    store = SimpleNamespace(check=lambda keys: True, get=lambda key: b"machine 0 has stopped")
    store.set = lambda key, value: key == "knows" and vars(store).update(check=gone, get=gone)
    watch._store, watch._sentence, watch._heard = store, None, {}
    vars(watch._group).update(keys="", host="", keys_of=lambda topic: [topic] * 3)
    with pytest.raises(Ended, match="machine 0 has stopped"):
        watch._exchange(1)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_machine_that_hangs_is_named_within_the_timeout(machines, victim):
    arguments, folder = machines.arguments("--max_step", 14, "--checkpoint_interval", 3, "--machine_timeout", 5)
    processes = machines.start_all(2, arguments, suffering=at_step(8, victim, STOP))
    other = processes[1 - victim]
    output, _ = other.communicate(timeout=120)
    assert other.returncode == 1 and f"machine {victim} (" in output.splitlines()[-1], output
    processes[victim].send_signal(signal.SIGCONT)
    output, _ = processes[victim].communicate(timeout=120)
    assert processes[victim].returncode == 1, output


def test_ctrl_c_before_the_training_is_said_on_the_others(machines):
    arguments, _ = machines.arguments("--max_step", 14)
    first = ("import dglke_frugal.training.run.session as session\ndef load(*given): raise KeyboardInterrupt\n"
             "if os.environ['RANK'] == '1': session.load = load\n")
    codes, outputs = machines.end_all(machines.start_all(2, arguments, first=first))
    assert codes == [1, 130] and outputs[1].splitlines()[-1] == "stopped", outputs
    assert outputs[0].splitlines()[-1].endswith(") was stopped by Ctrl-C or a signal"), outputs


def test_a_machine_with_an_error_of_its_own_says_it_on_all(machines):
    arguments, _ = machines.arguments("--max_step", 14)
    wrong = "from dglke_frugal.errors import InputError; raise InputError('the disk is full')"
    codes, outputs = machines.end_all(machines.start_all(2, arguments, suffering=at_step(5, 1, wrong)))
    assert codes == [1, 2]
    assert "machine 1 (" in outputs[0] and "the disk is full" in outputs[0].splitlines()[-1]
    assert outputs[1].splitlines()[-1].endswith("the disk is full")


def test_a_divergence_that_one_machine_finds_is_no_failure_of_a_machine(machines):
    """All end as one process does, without the advice to go on as before."""
    arguments, _ = machines.arguments("--max_step", 14, "--checkpoint_interval", 3)
    diverged = "from dglke_frugal.divergence import Diverged; raise Diverged('the loss is nan')"
    codes, outputs = machines.end_all(machines.start_all(2, arguments, suffering=at_step(5, 1, diverged)))
    assert codes == [2, 2], outputs
    for output in outputs:
        sentence = output.splitlines()[-1]
        assert "the loss is nan" in sentence and "use a smaller --lr" in sentence and "auto" not in sentence, output


FULL_DISK = """
from dglke_frugal.training.machines import table_files
def full(file):
    raise OSError(28, "No space left on device")
if os.environ["RANK"] == "{victim}":
    table_files.os = type("", (), {{"fsync": full}})
"""


@pytest.mark.parametrize("victim", [0, 1])
def test_a_full_disk_is_said_on_all_with_what_could_not_be_written(machines, victim):
    arguments, folder = machines.arguments("--max_step", 4, "--checkpoint_interval", 2)
    codes, outputs = machines.end_all(machines.start_all(2, arguments, first=FULL_DISK.format(victim=victim)))
    assert codes[victim] == 2 and codes[1 - victim] == 1, outputs
    for output in outputs:
        sentence = output.splitlines()[-1]
        assert f"cannot write {'checkpoints to ' * (victim == 0)}{folder}/checkpoints" in sentence, output
        assert "No space left on device; free some space" in sentence, output


@pytest.mark.parametrize("victim", [0, 1])
def test_a_signal_to_one_stops_all_after_the_same_step(machines, victim):
    arguments, folder = machines.arguments("--max_step", 100000)
    processes = machines.start_all(2, arguments)
    wait_for(processes[0], "(20/100000)")
    processes[victim].send_signal(signal.SIGTERM)
    codes, outputs = machines.end_all(processes)
    assert codes == [128 + signal.SIGTERM] * 2, outputs
    assert f"dglke_train --resume {folder}" in outputs[0]
    assert trained(folder)


@pytest.mark.parametrize("given, environment, sentence", [
    ([(), ("--lr", 0.2)], {}, "--lr 0.2"),
    ([("--num_proc", 3)] * 2, {}, "has started 2 machines, and the run has 3 (--num_proc): start 3"),
    ([()] * 2, {"GLOO_SOCKET_IFNAME": "nothing7"}, "machine 0 of 2 ("),
    ([("--partition", "relation")] * 2, {}, "hash, range or metis"),
    ([("--gpu", 0, 1)] * 2, {}, "each machine computes on one GPU"),
    ([("--gpu", 77)] * 2, {}, "machine 0 ("),
    ([("--model_name", "TransE_l2", "--init_from", "x")] * 2, {}, "--init_from"),
    ([("--normalize_entities", "--flush", "none")] * 2, {}, "several do not; leave it out"),
    ([("--negatives", "local", "--machine_timeout", 0)] * 2, {}, "--machine_timeout"),
    ([("--lr_decay_at", 2)] * 2, {}, "with sampled negatives several machines keep one learning rate; leave"),
], ids=["flags", "number", "interface", "partition", "gpus", "no gpu", "init_from", "lengths", "timeout", "rate"])
def test_what_does_not_fit_is_a_sentence_on_every_machine(machines, given, environment, sentence):
    for said in machines.refused_by_all(2, each=given, environment=environment):
        assert sentence in said


NOTHING_7 = """
if os.environ["RANK"] == "{machine}":
    os.environ["GLOO_SOCKET_IFNAME"] = "lo,nothing7"
import dglke_frugal.training.machines.group as group
group._Watch.explain = lambda watch: sys.exit("nobody waits for what another machine has to say")
"""


@pytest.mark.parametrize("count, machine", [(2, 0), (3, 2)])
def test_an_interface_that_a_machine_does_not_have_is_said_at_once_on_all(machines, count, machine):
    for said in machines.refused_by_all(count, first=NOTHING_7.format(machine=machine)):
        assert f"machine {machine} of {count} (" in said and "no network interface nothing7 with" in said


REACHES_NOBODY = """
import torch.distributed
import dglke_frugal.training.machines.group as group
def refuse(*given, **named):
    raise RuntimeError("no route to host")
if os.environ["RANK"] == "1":
    torch.distributed.init_process_group = refuse
    group._Watch.explain = lambda watch: None  # else for the timeout, since nobody else has failed
if os.environ["RANK"] == "2":
    group.BEAT_SECONDS = 0.7
group.LOST_SECONDS = 30  # a busy machine's
"""


def test_a_machine_that_reaches_nobody_says_so_on_all(machines):
    """Also on one that asks rarely: machine 0, which serves the store, does not go before."""
    arguments, _ = machines.arguments("--max_step", 4, "--machine_timeout", 60)  # a busy machine's
    codes, outputs = machines.end_all(machines.start_all(3, arguments, first=REACHES_NOBODY))
    assert codes == [1, 2, 1], outputs
    for output in outputs:
        assert "machine 1 of 3 (" in output.splitlines()[-1] and "no route to host" in output.splitlines()[-1], output


def test_several_workers_on_each_machine_are_refused(machines):
    arguments, _ = machines.arguments("--max_step", 4)
    output = machines.end(arguments, code=2, RANK="0", WORLD_SIZE="4", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                          MASTER_PORT="1")
    assert "start torchrun with --nproc_per_node 1" in output


def test_a_rendezvous_at_a_host_that_nobody_knows_is_refused_at_once(machines):
    for machine, said in enumerate(machines.refused_by_all(2, environment={"MASTER_ADDR": "none.invalid"})):
        assert f"machine {machine} of 2 (" in said and "no host 'none.invalid'" in said


WITHOUT_PATIENCE = """
import torch.distributed
import dglke_frugal.training.machines.group as group
group.CONNECT_SECONDS = 0.2
torch.distributed.TCPStore = lambda *given, **named: sys.exit("it waits as long as it pleases")
"""


def test_a_rendezvous_that_nobody_serves_is_waited_for_as_long_as_a_machine_is(machines):
    arguments, _ = machines.arguments("--max_step", 4)
    output = machines.end(arguments, code=2, first=WITHOUT_PATIENCE, **machines.environments(2)[1])
    assert "cannot reach the rendezvous at 127.0.0.1:" in output.splitlines()[-1], output
    assert "start that one, too, and check the address and the port: [Errno 111]" in output.splitlines()[-1], output


def test_a_port_that_another_process_has_is_said_so(machines):
    arguments, _ = machines.arguments("--max_step", 4)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        variables = {**machines.environments(2)[0], "MASTER_PORT": str(taken.getsockname()[1])}
        output = machines.end(arguments, code=2, **variables)
    assert "another process has this port" in output.splitlines()[-1], output


def test_a_machine_that_waits_for_others_says_so(machines):
    arguments, _ = machines.arguments("--max_step", 4)
    first = "import dglke_frugal.training.machines.group as group\ngroup.QUIET_SECONDS = 0.1\n"
    codes, outputs = machines.end_all(machines.start_all(
        2, arguments, first=first + "import time\nif os.environ['RANK'] == '1': time.sleep(1)\n"))
    assert codes == [0, 0] and "machine 0 of 2 (" in outputs[0] and "waits for the others at 127.0.0.1:" in outputs[0]


@pytest.mark.parametrize("changed, what", [("train", "training triples"), ("valid", "validation triples"),
                                           ("test", "test triples")])
def test_other_data_are_refused(machines, small, tmp_path, changed, what):
    """Also triples that are only ranked, or known to the filter: other ranks would be summed."""
    other = tmp_path / "other"
    other.mkdir()
    for split in ("train", "valid", "test"):
        lines = (small / f"{split}.txt").read_text().splitlines(keepends=True)
        (other / f"{split}.txt").write_text("".join(lines[:-1] if split == changed else lines))
    for said in machines.refused_by_all(2, "--test", each=[(), ("--data_path", other)]):
        assert "machine 1 (" in said and "has other data" in said and f"their {what} differ" in said


def of_triples(folder, *triples):
    """Arguments for a graph of these triples."""
    folder.mkdir()
    (folder / "train.txt").write_text("".join(f"{line}\n" for line in triples))
    return ["--data_path", folder, "--data_files", "train.txt"]


WAITS_BEFORE_IT_SAYS_WHY = """
import dglke_frugal.training.run.session as session
load = session.load
def slow(*given):
    if os.environ["RANK"] == "1": time.sleep(0.5)
    return load(*given)
session.load = slow
"""


@pytest.mark.parametrize("triples, given, sentence", [
    (["a\tr\tb"], [], "owns no head of a training triple; use fewer ranks or another --partition"),
    (["a\tr\ta"], ["--partition", "range"], "1 entities cannot be divided over 2 ranks"),
    pytest.param(["a\tr\ta"], ["--partition", "metis"], "1 entities cannot be divided over 2 ranks",
                 marks=NEEDS_METIS),
    (["a\tr\tb", "a\tr"], [], "line 2 has 2 columns"),
    (["a\tr\tb"], ["--valid"], "--valid needs triples that"),
], ids=["heads", "entities", "entities by metis", "columns", "no split"])
def test_a_graph_that_does_not_fit_is_refused_by_all_machines_and_has_no_folder(machines, tmp_path, triples, given,
                                                                                sentence):
    given = [*given, *of_triples(tmp_path / "graph", *triples)]
    one, other = machines.refused_by_all(2, *given, first=WAITS_BEFORE_IT_SAYS_WHY)
    assert sentence in one and other == one


def test_a_file_that_one_machine_lacks_is_said_by_all(machines, tmp_path):
    for said in machines.refused_by_all(2, each=[(), ("--data_path", tmp_path / "nothing")]):
        assert "machine 1 (" in said and "nothing" in said


UNREADABLE_NAMES = """
import dglke_frugal.training.machines.train_machines as train_machines
from dglke_frugal.errors import InputError
def unreadable(*given): raise InputError("cannot read entities.tsv")
if os.environ["RANK"] == "{machine}": train_machines.Fingerprint.of = unreadable
"""


@pytest.mark.parametrize("machine", [0, 1])
def test_names_that_one_machine_cannot_read_are_said_by_all(machines, machine):
    for said in machines.refused_by_all(2, first=UNREADABLE_NAMES.format(machine=machine)):
        assert f"machine {machine} (" in said and said.endswith("cannot read entities.tsv")


@pytest.mark.parametrize("error", ["KeyError('relation')", "MemoryError()"])
def test_an_error_that_is_no_refusal_ends_the_other_machine_while_it_waits(machines, error):
    arguments, folder = machines.arguments("--max_step", 4)
    first = ("import dglke_frugal.training.run.session as session\n"
             f"def load(*given): raise {error}\n"
             "if os.environ['RANK'] == '1': session.load = load\n")
    codes, outputs = machines.end_all(machines.start_all(2, arguments, first=first))
    said = "has stopped: 'relation'" if "Key" in error else "has stopped: this process can have no more memory"
    assert codes[0] == 1 and codes[1] != 0 and said in outputs[0].splitlines()[-1], outputs
    assert not folder.exists()


OTHER_DISK = """
import io
import dglke_frugal.training.machines.train_machines as train_machines
def other_disk(path, *given):
    if ".machines" not in str(path): return io.open(path, *given)
    {does}
if os.environ["RANK"] == "1":
    train_machines.open = other_disk
"""


@pytest.mark.parametrize("does, sentence", [
    ("raise FileNotFoundError(2, 'No such file or directory')", "does not see"),
    ("raise OSError(30, 'Read-only file system')", "cannot write (Read-only file system) to"),
    ("return io.BytesIO(b'of an earlier start')", "does not see")], ids=["missing", "read-only", "of its own"])
def test_a_machine_that_does_not_see_or_may_not_write_the_folder_is_refused_before_it_trains(machines, does, sentence):
    arguments, folder = machines.arguments("--max_step", 4)
    codes, outputs = machines.end_all(machines.start_all(2, arguments, first=OTHER_DISK.format(does=does)))
    assert codes == [2, 2] and not folder.exists(), outputs
    for output in outputs:
        assert "machine 1 (" in output.splitlines()[-1] and f"{sentence} {folder}" in output.splitlines()[-1], output


@pytest.mark.parametrize("resumed", ["auto", "another"])
def test_machines_that_do_not_go_on_with_the_same_run_are_refused(machines, resumed):
    begun, _ = machines.run_all(2, "--max_step", 4)
    if resumed == "auto":
        each = [machines.arguments("--save_path", begun.parent)[0]] * 2
        each[1] = [*each[1], "--resume", "auto"]
    else:
        other = shutil.copytree(begun, begun.parent / "TransE_l2_small_1")
        each = [["--resume", begun], ["--resume", other]]
    codes, outputs = machines.end_all(machines.start_all(2, [], each=[[*given, "--max_step", 8] for given in each]))
    assert codes == [2, 2], outputs
    assert all("machine 1 (" in output and "has --resume " in output.splitlines()[-1] for output in outputs), outputs


def test_a_run_that_cannot_be_gone_on_with_is_refused_by_all_machines(machines):
    begun, _ = machines.run_all(2, "--max_step", 4, "--no_save_emb", "--checkpoint_interval", 0)
    codes, outputs = machines.end_all(machines.start_all(2, ["--resume", begun, "--max_step", 8]))
    assert codes == [2, 2], outputs
    assert all("has nothing to go on from" in output.splitlines()[-1] for output in outputs), outputs


def test_a_run_that_another_process_trains_is_refused_by_all_machines(machines):
    begun, _ = machines.run_all(2, "--max_step", 4)
    with alone(begun):
        codes, outputs = machines.end_all(machines.start_all(2, ["--resume", begun, "--max_step", 8]))
    assert codes == [2, 2], outputs
    assert all("another process is training the run" in output.splitlines()[-1] for output in outputs), outputs


def test_another_version_is_refused(machines):
    first = "import dglke_frugal.version as v; v.version = lambda: 'old' * (os.environ['RANK'] == '1')"
    assert all("install the same version" in said for said in machines.refused_by_all(2, first=first))
