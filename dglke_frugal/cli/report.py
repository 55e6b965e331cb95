"""`dglke_frugal report`: the curves, the map and the results of one or more runs on a page."""

from __future__ import annotations

from pathlib import Path

from .errors import reports_input_errors
from .tool_flags import Parser


def own_flags() -> Parser:
    """The command's flags."""
    parser = Parser(prog="dglke_frugal report",
                    description="Write one HTML page about one or more runs; it needs nothing else.")
    parser.add_argument("run", nargs="+", help="folder of a run; several are drawn over one another")
    parser.add_argument("--out", type=Path,
                        help="file for the page (report.html in the run's folder; for several runs, here)")
    parser.add_argument("--png", type=Path, metavar="FOLDER",
                        help="also write the pictures as PNG files (needs matplotlib)")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    options = own_flags().parse_args(argv)
    from ..files import check_output, replace_file
    from ..report.page import make_page
    from ..report.run_log import RunLog

    runs = [RunLog.read(folder) for folder in options.run]
    out = options.out or (Path(options.run[0]) if len(runs) == 1 else Path()) / "report.html"
    check_output(out, b"<!doctype html>.*dglke_frugal report</title>")
    page = make_page(runs)
    with replace_file(out, "w") as file:
        file.write(page)
    print(f"Saved {out}")
    if options.png:
        from ..report.images import write_images

        for path in write_images(runs, options.png):
            print(f"Saved {path}")
