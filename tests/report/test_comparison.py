"""Runs side by side: what differs, what is best, how curves are told apart; examples and categories on the
page."""

import json
import re

import pytest

from datasets import families
from dglke_frugal.cli.evaluate import main as dglke_eval
from dglke_frugal.cli.report import main as report
from dglke_frugal.cli.train import main as dglke_train
from dglke_frugal.report import live
from dglke_frugal.report.charts import PANELS
from dglke_frugal.report.comparison import comparison, differing_flags
from dglke_frugal.report.page import make_page
from dglke_frugal.report.predictions import predictions_section
from dglke_frugal.report.run_log import RunLog
from dglke_frugal.report.trained import find_trained


def log(tmp_path, number, mrr=None, seconds=1.0, **flags):
    result = {} if mrr is None else {"steps": 10, "seed": number, "test": {"MRR": mrr},
                                     "seconds": {"training": seconds},
                                     "hardware": {"processor": "P", "cores": 2, "gpus": []}}
    points = [(step, 1.0 / (step + number)) for step in (1, 2, 3)]
    return RunLog(tmp_path / f"run{number}", f"run{number}", {"lr": 0.1, "dim": 8, "save_path": f"{number}", **flags},
                  {"train/loss": points, "valid/MRR": points, "valid/HITS@10": points}, result, [], 0.0)


def rows_of(html):
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td>.*?)</tr>", html)]


def test_only_differing_flags_are_compared(tmp_path):
    runs = [log(tmp_path, 1, lr=0.1), log(tmp_path, 2, lr=0.2)]
    assert differing_flags(runs) == ["lr"]
    assert differing_flags(runs[:1]) == []


def test_the_best_is_bold_and_the_unfinished_run_is_named(tmp_path):
    runs = [log(tmp_path, 1, 0.25, 4.0), log(tmp_path, 2, 0.5, 9.0), log(tmp_path, 3)]
    html = comparison(runs, [run.name for run in runs])
    quality, circumstances = html.split("</table>")[:2]
    heads, rows = re.findall(r"<th>(.*?)</th>", quality), rows_of(quality)
    assert heads[:2] == ["run", "test MRR"]  # in sight on a narrow screen
    assert [row[1] for row in rows] == ["0.2500", "<b>0.5000</b>", "-"]
    assert [row[heads.index("training (s)")] for row in rows] == ["<b>4.0</b>", "9.0", "-"]
    heads, rows = re.findall(r"<th>(.*?)</th>", circumstances), rows_of(circumstances)
    assert [row[heads.index("seed")] for row in rows] == ["1", "2", "-"]
    assert rows[0][heads.index("hardware")] == "2 cores, P"
    assert "Not finished: run3" in html and "sortable" in html


def test_one_run_has_its_values_by_name_the_test_mrr_first(tmp_path):
    html = comparison([log(tmp_path, 1, 0.25)], ["run1"])
    assert "<table" not in html
    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html)[0] == ("test MRR", "0.2500")


def test_flags_that_differ_are_in_tables_that_fit_a_page(tmp_path):
    runs = [log(tmp_path, number, **{f"flag{place}": number for place in range(20)}) for number in (1, 2)]
    tables = comparison(runs, ["a", "b"]).split("</table>")
    widths = [table.count("<th>") for table in tables]
    assert max(widths) <= 10 and sum(table.count("<th>flag") for table in tables) == 20


@pytest.mark.parametrize("count", [2, 8, 28])
def test_curves_of_many_runs_differ_in_colour_or_dash(tmp_path, count):
    runs = [log(tmp_path, number, 0.5) for number in range(count)]
    for panel in PANELS[:2]:
        styles = [(curve.colour, curve.dash) for curve in panel.chart(runs, [run.name for run in runs]).curves]
        assert len(set(styles)) == len(styles) >= count


def test_no_text_of_a_run_ends_the_script(tmp_path):
    run = log(tmp_path, 1, 0.5)
    hostile = "</script><script>alert(1)</script>"
    page = make_page([run, log(tmp_path, 2, 0.5, lr=hostile)], with_tables=False)
    assert hostile not in page
    data = json.loads(re.search(r'id="charts">(.*?)</script>', page, re.DOTALL)[1])
    assert data["charts"][0]["curves"][0]["points"] == [list(point) for point in run.metric("train/loss")]


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    families.write(folder / "data", families.generate(people=200))
    return (f"--data_path {folder}/data --dataset families --format raw_udd_hrt "
            "--data_files train.txt valid.txt test.txt --model_name DistMult --hidden_dim 16 --gamma 12 --lr 0.1 "
            "--batch_size 128 --neg_sample_size 32 --max_step 60 "
            f"--log_interval 20 --test --seed 1 --save_path {folder}/ckpts").split(), folder / "ckpts"


def test_a_live_report_follows_the_run_and_ends_whole(flags, monkeypatch, capsys):
    arguments, ckpts = flags
    pages = []
    monkeypatch.setattr(live, "SECONDS", 0.0)
    write = live.LiveReport._write

    def keep(self, **how):
        write(self, **how)
        pages.append((self._folder / live.REPORT_FILE).read_text())

    monkeypatch.setattr(live.LiveReport, "_write", keep)
    dglke_train([*arguments, "--report", "live"])
    assert len(pages) == 5  # three log lines, the test, the end
    assert all("Not finished" in page and "Entities" not in page for page in pages[:3])
    assert "http-equiv" in pages[0] and "http-equiv" not in pages[-1] and "Example predictions" in pages[-1]
    assert "follows the run" in capsys.readouterr().out
    report([str(ckpts / "DistMult_families_0"), "--out", str(ckpts / "again.html")])
    assert (ckpts / "again.html").read_text() == pages[-1]


def test_a_page_shows_categories_and_examples(flags):
    arguments, ckpts = flags
    dglke_train([*arguments, "--report", "end"])
    run = max(ckpts.glob("DistMult_families_*"))
    dglke_eval(["--model_path", str(run), "--breakdown", "--json", str(run / "evaluation.json")])
    page = make_page([RunLog.read(run)])
    assert "N-N (" in page and "8 test triples drawn at random" in page
    assert "All 198 entities" in page and "entities, drawn at random" not in page
    hardware = json.loads((run / "result.json").read_text())["hardware"]
    assert hardware["cores"] >= 1 and hardware["memory_bytes"] > 2**28 and hardware["gpus"] == []


def test_examples_are_filtered(tmp_path):
    """Every other answer that the graph knows is left out; of few test triples all are shown."""
    triples = [f"a\tr\t{name}" for name in "bcdefgh"] + [f"{name}\tr\ta" for name in "bcdefgh"]
    for split, some in (("train", triples), ("valid", ["b\tr\tc"]), ("test", ["a\tr\ti", "a\tr\tj"])):
        (tmp_path / f"{split}.txt").write_text("\n".join(some) + "\n")
    dglke_train(f"--data_path {tmp_path} --dataset toy --format raw_udd_hrt --data_files train.txt valid.txt test.txt "
                f"--model_name TransE_l2 --hidden_dim 8 --batch_size 8 --neg_sample_size 8 --max_step 200 --lr 0.1 "
                f"--gamma 6 --seed 1 --save_path {tmp_path}".split())
    section = predictions_section(find_trained(RunLog.read(next(tmp_path.glob("TransE_l2_toy_*")))), "")
    assert "drawn at random" not in section and "The test triples" in section
    answers = [re.findall(r'title="([^"]*)">(\w)<', row) for row in re.findall(r"<tr>.*?</tr>", section)[1:]]
    assert [sorted(name for _, name in row) for row in answers] == [["a", "i"], ["a", "j"]]  # a itself is no known tail
    assert [name for row in answers for messages, name in row if messages == "the right answer"] == ["i", "j"]
