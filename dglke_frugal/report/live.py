"""A report that is written while its run trains: a page that loads itself again."""
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Mapping

from ..files import replace_file
from ..training.log.tracker import Tracker
from .page import make_page
from .run_log import RunLog

REPORT_FILE = "report.html"
SECONDS = 10.0  # between two pages, at least
REFRESH_SECONDS = 10  # after which a browser looks again


class LiveReport(Tracker):
    """A tracker that writes report.html into a run's folder.

    live: also while the run trains, at most every SECONDS and without what needs the trained tables; the page then
    loads itself again. The last page, written when the run ends, is that of `dglke_frugal report`.
    """

    def __init__(self, folder: os.PathLike, live: bool):
        self._folder, self._live = Path(folder), live
        self._next = 0.0

    def start(self, config: Mapping[str, Any], step: int):
        pass

    def log(self, metrics: Mapping[str, float], step: int):
        if self._live and time.monotonic() >= self._next:
            self._write(refresh_seconds=REFRESH_SECONDS, with_tables=False)
            if not self._next:
                path = self._folder / REPORT_FILE
                print(f"The report is {path}; a browser that shows it follows the run", flush=True)
            self._next = time.monotonic() + SECONDS

    def close(self):
        if (self._folder / "metrics.jsonl").exists():
            self._write(refresh_seconds=0, with_tables=True)

    def _write(self, **how):
        page = make_page([RunLog.read(self._folder)], **how)
        with replace_file(self._folder / REPORT_FILE, "w") as file:
            file.write(page)
