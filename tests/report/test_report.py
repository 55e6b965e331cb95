"""A report holds the curves of its runs, is whole in itself, and says in a sentence what is wrong with a folder."""

import importlib
import json
import re
import shutil
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from datasets import families
from dglke_frugal.cli.evaluate import main as dglke_eval
from dglke_frugal.cli.report import main as report
from dglke_frugal.cli.train import main as dglke_train
from dglke_frugal.report.charts import MOST_POINTS, thinned
from dglke_frugal.report.entity_map import map_entities, principal_components
from dglke_frugal.report.run_log import RunLog, unique_names
from dglke_frugal.report.svg import number_text, ticks
from dglke_frugal.report.trained import find_trained

class Page(HTMLParser):
    """Checks that tags are closed in order; collects attributes, texts and SVG elements."""

    def __init__(self, text):
        super().__init__()
        self.open, self.attributes, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A real run on a small graph, evaluated by relation as well."""
    folder = tmp_path_factory.mktemp("report")
    families.write(folder / "data", families.generate(people=300))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        dglke_train(
            ["--data_path", str(folder / "data"), "--dataset", "families", "--format", "raw_udd_hrt", "--data_files",
             "train.txt", "valid.txt", "test.txt", "--model_name", "ComplEx", "--hidden_dim", "16", "--batch_size",
             "256", "--neg_sample_size", "64", "--lr", "0.1", "--max_step", "60", "--log_interval", "10", "--valid",
             "--test", "--eval_interval", "30", "--flush", "p2f", "--seed", "1", "--save_path", str(folder / "ckpts")])
        made = folder / "ckpts" / "ComplEx_families_0"
        dglke_eval(["--model_path", str(made), "--breakdown", "--json", str(made / "evaluation.json")])
    return made


def page_of(*arguments):
    """The page that the command writes, as text."""
    report([str(argument) for argument in arguments])
    out = arguments[arguments.index("--out") + 1]
    return out.read_text(encoding="utf-8")


def test_page_of_a_run(run, tmp_path):
    text = page_of(run, "--out", tmp_path / "page.html")
    page = Page(text)
    for title in ("Training loss", "Validation", "Throughput", "Waiting", "Cache hits", "By degree",
                  "By most frequent relation", "finding heads", "cousin_of", "All flags of ComplEx_families_0"):
        assert title in page.text, title
    result = json.loads((run / "result.json").read_text())
    assert f"{result['test']['MRR']:.4f}" in page.text
    log = RunLog.read(run)
    assert [step for step, _ in log.metric("train/loss")] == [10, 20, 30, 40, 50, 60]
    for step, value in log.metric("valid/MRR"):
        assert f"MRR: {number_text(value)} after {step} steps" in page.text
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
        assert not re.search(r'="[^"]*\b(nan|inf)\b', svg)


def test_curves_are_where_their_values_are(run, tmp_path):
    text = page_of(run, "--out", tmp_path / "page.html")
    svg = ElementTree.fromstring(re.search(r'<svg[^>]*aria-label="Training loss".*?</svg>', text, re.DOTALL)[0])
    drawn = [tuple(map(float, pair.split(","))) for pair in svg.find("polyline").get("points").split()]
    points = RunLog.read(run).metric("train/loss")
    x, y = np.array(drawn).T
    steps, values = np.array(points).T
    assert np.corrcoef(x, steps)[0, 1] > 0.9999 and np.corrcoef(y, values)[0, 1] < -0.9999


def test_page_asks_for_nothing_from_outside(run, tmp_path):
    text = page_of(run, "--out", tmp_path / "page.html")
    assert not set(re.findall(r"https?://[^\"\s]*", text)) - {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "url(" not in text and "@import" not in text and "fetch(" not in text
    for tag, name, _ in Page(text).attributes:
        assert name not in ("src", "href") and tag not in ("link", "iframe", "img")


def test_several_runs_share_their_charts(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    lines = (other / "metrics.jsonl").read_text().replace('"lr": 0.1', '"lr": 0.2')
    (other / "metrics.jsonl").write_text(lines)
    text = page_of(run, other, "--out", tmp_path / "page.html")
    page = Page(text)
    assert "2 runs" in page.text and "other: MRR" in page.text and "ComplEx_families_0: MRR" in page.text
    svg = ElementTree.fromstring(re.search(r'<svg[^>]*aria-label="Training loss".*?</svg>', text, re.DOTALL)[0])
    assert len(svg.findall("polyline")) == 2
    assert len({line.get("stroke") for line in svg.findall("polyline")}) == 2


def test_run_with_nothing_but_a_few_numbers(tmp_path):
    """Null, missing and non-numeric values, a line cut short, no result, no tables, no flags."""
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 5, "train/loss": 1.5, "train/triples_per_second": null, "train/note": "x"}\n'
        '{"step": 10, "train/loss": NaN}\n{"step": 15, "train/lo')
    page = Page(page_of(tmp_path, "--out", tmp_path / "page.html"))
    assert "Training loss" in page.text and "Throughput" not in page.text
    assert "has no config.json" in page.text and "Not finished" in page.text
    assert "Not evaluated by relation" in page.text and "dglke_eval" not in page.text  # which has nothing to rank with


def test_a_map_that_cannot_be_drawn_says_why(run, tmp_path):
    """The tables are there, but two entities have no map; the command that ranks them needs its paths quoted."""
    (tmp_path / "two.tsv").write_text("a\tlikes\tb\n")
    dglke_train(["--data_path", str(tmp_path / "two.tsv"), "--hidden_dim", "4", "--max_step", "2", "--save_path",
                 str(tmp_path)])
    page = Page(page_of(tmp_path / "TransE_two_0", "--out", tmp_path / "page.html"))
    assert "No map: it takes three entities" in page.text and "dglke_eval" not in page.text
    moved = tmp_path / "a run"
    shutil.copytree(run, moved, ignore=shutil.ignore_patterns("evaluation.json"))
    page = Page(page_of(moved, "--out", tmp_path / "page.html"))
    assert f"dglke_eval --model_path '{moved}' --breakdown" in page.text
    (moved / "families_ComplEx_entity.npy").write_bytes(b"")
    assert "No map: cannot read" in Page(page_of(moved, "--out", tmp_path / "page.html")).text


def test_several_processes_and_a_data_set_without_names(tmp_path):
    """Freebase's files of names hold a count alone; result.json tells rates of one process."""
    recipe = importlib.import_module("recipes.freebase.__main__").RECIPE
    recipe.main(["--small", "--out", str(tmp_path), "--num_proc", "2", "--max_step", "40", "--log_interval", "10"])
    run = tmp_path / "ckpts" / "TransE_l2_Freebase_0"
    page = Page(page_of(run, "--out", tmp_path / "page.html"))
    assert re.search(r"relation \d+", page.text) and "By degree" in page.text
    rate = json.loads((run / "result.json").read_text())["training"]["triples_per_second"]
    assert f"{2 * rate:,.0f}" in page.text and "peak memory of a process (GiB)" in page.text


def test_resumed_steps_replace_those_from_before(tmp_path):
    entries = [{"step": 0, "event": "start", "config": {"lr": 1}},
               {"step": 10, "train/loss": 3.0},
               {"step": 20, "train/loss": 9.0},
               {"step": 10, "event": "start", "config": {"lr": 1}},
               {"step": 20, "train/loss": 2.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert RunLog.read(tmp_path).metric("train/loss") == [(10, 3.0), (20, 2.0)]


@pytest.mark.parametrize("damage, sentence", [
    (lambda folder: shutil.rmtree(folder), "is not a folder"),
    (lambda folder: (folder / "metrics.jsonl").unlink(), "has no metrics.jsonl"),
    (lambda folder: (folder / "metrics.jsonl").write_text(""), "holds no line of metrics"),
    (lambda folder: (folder / "metrics.jsonl").write_bytes(b"\xff\x00" * 99), "holds no line of metrics"),
    (lambda folder: (folder / "result.json").write_text("{"), "cannot read"),
    *((lambda folder, text=text: (folder / "result.json").write_text(text), sentence) for text, sentence in {
        "[]": "result.json does not hold what was written there; remove it",
        '{"test": {"MRR": "high"}}': "by its test.MRR; remove it to go on from the last checkpoint",
        '{"training": 5}': "by its training; remove it", '{"hardware": {"gpus": 1}}': "by its hardware.gpus"}.items()),
    (lambda folder: (folder / "evaluation.json").write_text('{"by_relation": [{"MRR": 1}, {"ranks": []}]}'),
     "evaluation.json .*by its by_relation.1.ranks; write it again"),
    (lambda folder: (folder / "evaluation.json").write_text("[1"), "cannot read")])
def test_folder_that_is_no_run(damage, sentence, tmp_path, refused):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"step": 1, "train/loss": 1.0}\n')
    damage(folder)
    with refused(sentence):
        report([str(folder), "--out", str(tmp_path / "page.html")])
    assert not (tmp_path / "page.html").exists()


def test_images(run, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
    page_of(run, "--out", tmp_path / "page.html", "--png", tmp_path / "png")
    for name in ("training_loss.png", "validation.png", "cache_hits.png", "entities.png"):
        assert (tmp_path / "png" / name).read_bytes().startswith(b"\x89PNG")


def test_map_colours_by_the_training_graph(run):
    found = map_entities(find_trained(RunLog.read(run)))
    degree, relation = found.maps
    triples = [line.split("\t") for line in (run.parent.parent / "data" / "train.txt").read_text().splitlines()]
    for place in range(0, len(degree.labels), 17):
        name, _, messages = degree.labels[place].rpartition(", ")
        mine = [r for h, r, t in triples for entity in (h, t) if entity == name]
        assert messages == f"{len(mine)} triples"
        label = relation.legend[relation.groups[place]][0]
        if label != "others":
            assert mine.count(label) == max(map(mine.count, mine))


def test_principal_components_are_numpys():
    rows = np.random.default_rng(0).normal(size=(200, 7)) * [9, 5, 1, 1, 1, 1, 1] + 3
    points, shares = principal_components(rows)
    variances = np.sort(np.linalg.eigvalsh(np.cov(rows.T)))[::-1]
    np.testing.assert_allclose(points.var(axis=0, ddof=1), variances[:2])
    np.testing.assert_allclose(shares, variances[:2] / variances.sum())
    assert abs(np.corrcoef(points.T)[0, 1]) < 1e-9
    np.testing.assert_allclose(principal_components(np.ones((5, 3)))[0], 0)


def test_ticks_and_numbers():
    assert ticks(0, 3000, 6) == [0, 500, 1000, 1500, 2000, 2500, 3000]
    np.testing.assert_allclose(ticks(0.13, 0.41), [0.2, 0.3, 0.4])
    assert [number_text(v) for v in (0, 0.0025, 12, 1500, 24000, 1.2e6)] == ["0", "0.0025", "12", "1.5k", "24k", "1.2M"]
    assert number_text(37.5, percent=True) == "37.5%"


def test_long_curves_are_averaged_and_keep_their_end():
    points = [(step, float(step)) for step in range(1, 10 * MOST_POINTS + 4)]
    thin = thinned(points)
    assert len(thin) <= MOST_POINTS and thin[-1][0] == points[-1][0]
    assert thin[0][1] == np.mean([value for _, value in points[: -(-len(points) // MOST_POINTS)]])


def test_names_tell_runs_of_one_name_apart(tmp_path):
    runs = [RunLog(tmp_path / parent / "run", "run") for parent in ("a", "b")]
    assert unique_names(runs) == ["a/run", "b/run"]
    assert unique_names(runs[:1]) == ["run"]
    assert unique_names([runs[0], runs[0]]) == ["run (1)", "run (2)"]
    assert unique_names([runs[0], runs[1], runs[0]]) == ["a/run (1)", "b/run", "a/run (2)"]
