"""README and docs are short, hold no history, and every figure in them is of a result file."""

import json
import re

import pytest

from benchmarks import pages
from docs.examples import ROOT

RESULTS = pages.Results()
USER_PAGES = [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").glob("*.md"))
                                    if path.name not in ("contributing.md", "release.md"))]
GENERATED = {"flags.md"}


def words_of(text):
    """A page without its blocks of code and its tables of results."""
    return re.sub(r"^ *```.*?^ *```$", "", pages.BLOCK.sub("", text), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", pages.pages(), ids=lambda path: path.name)
def test_tables_are_those_of_the_results(path):
    text = path.read_text(encoding="utf-8")
    assert text == pages.fill(text, RESULTS), "run python -m benchmarks.pages"
    assert len(re.findall("<!-- table: ", text)) == len(pages.BLOCK.findall(text)), "a table lacks its <!-- end -->"


def test_the_chart_is_of_the_results():
    assert pages.CHART.read_text(encoding="utf-8") == pages.chart(RESULTS), "run python -m benchmarks.pages"


def test_a_table_follows_its_result(tmp_path):
    (tmp_path / "train-cpu.json").write_text(json.dumps({
        "models": {"TransE_l2": {"legs": {"frugal": {"triples_per_second": 2e6},
                                          "vanilla": {"triples_per_second": 1e5}}}},
        "machine": {"processor": "AMD EPYC", "cores": 2, "gpu": None}}))
    results = pages.Results(tmp_path)
    text = pages.fill("a\n<!-- table: speed -->\nold\n<!-- end -->\nb\n", results)
    assert "| 2 cores of an AMD EPYC | FB15k | 2.00 | 0.100 | 20x |" in text and "old" not in text
    assert text.startswith("a\n") and text.endswith("-->\nb\n") and pages.fill(text, results) == text
    assert "2.00 M" in pages.chart(results) and "100 k" in pages.chart(results)
    with pytest.raises(SystemExit, match="there is no table 'sped'; there are speed"):
        pages.fill("<!-- table: sped -->\n<!-- end -->", results)


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 160] == []
    tables = {name: text.count("\n| ") for _, name, text in (
        (block[0], block[2], block[0]) for block in pages.BLOCK.finditer("\n".join(lines)))}
    assert all(rows - 1 <= 6 for rows in tables.values()), f"six rows at most: {tables}"


@pytest.mark.parametrize("path", USER_PAGES, ids=lambda path: path.name)
def test_a_page_is_short_and_holds_no_history(path):
    text = path.read_text(encoding="utf-8")
    assert path.name in GENERATED or len(text.splitlines()) <= 220
    outside = [line for line in words_of(text).splitlines() if not line.startswith(("|", "<!--", "!["))]
    assert path.name in GENERATED or [line for line in outside if len(line) > 160] == []
    words = re.findall(r"\b[0-9a-f]{7,40}\b", text)
    assert [word for word in words if re.search("[0-9]", word) and re.search("[a-f]", word)] == []  # hashes of commits
    assert not re.search(r"benchmarks/results/\S*\.json|\b\w+-(?:h[12]00|[124]gpus?|cpu)\w*\.json", text)


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))],
                         ids=lambda path: path.name)
def test_a_page_is_in_plain_words(path):
    """Words that stand for another one, which says more."""
    vague = r"\b(?:beside|anyhow|by hand|those that|all of these|each of these|twin|carr(?:y|ies|ied) (?!out))\b"
    assert re.findall(vague, words_of(path.read_text(encoding="utf-8")), re.IGNORECASE) == []


@pytest.mark.parametrize("path", USER_PAGES, ids=lambda path: path.name)
def test_figures_of_speed_and_quality_stand_in_tables_of_results(path):
    """Not in sentences, where nothing compares them with the results."""
    claims = (r"\d[\d.,]*\s*(?:M |k |million |thousand )?triples/s", r"\d\s*times as (?:fast|many)",
              r"\d\s*(?:us|ms) a step")
    claimed = re.findall("|".join(f"[^\n]*{claim}[^\n]*" for claim in claims),
                         words_of(path.read_text(encoding="utf-8")))
    assert [line for line in claimed if "N times as many" not in line] == []
