"""The documentation builds as a site without a warning, with nothing that is fetched from outside."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)], cwd=ROOT,
                          capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    missing = [page for page in pages if not (site / page / "index.html").exists()
               and not (page.name == "index" and (site / page.parent / "index.html").exists())]
    assert pages and not missing


def test_the_reference_holds_docstrings(site):
    text = (site / "reference" / "run" / "index.html").read_text(encoding="utf-8")
    assert "dglke_frugal.inference.run.Run.tails" in text


def test_nothing_is_fetched_from_outside(site):
    for page in site.rglob("*.html"):
        fetched = re.findall(r'<(?:script|img|link rel="stylesheet")[^>]+(?:src|href)="(https?:[^"]+)"',
                             page.read_text(encoding="utf-8"))
        assert not fetched, f"{page.name}: {fetched}"
