"""`dglke_frugal presets`: the recipes that come with the package, and what to expect of them."""

from __future__ import annotations

import json

from ..presets.auto import is_auto, rows_of_table
from ..presets.catalogue import Preset, find_preset, presets
from . import flags
from .errors import reports_input_errors


def own_flags() -> flags.Parser:
    """The command's flags."""
    parser = flags.Parser(
        prog="dglke_frugal presets", allow_abbrev=False,
        description="List the recipes that come with the package, or print the flags of one.",
        epilog="MRR is of all test triples, filtered, against all entities, ties pessimistic; seconds are of training. "
        "Train one with dglke_train --preset NAME, or --preset auto/MODEL for flags by the size of the graph, whose "
        "rules dglke_frugal presets auto prints.")
    parser.add_argument("name", nargs="?", metavar="GRAPH/MODEL",
                        help="print the flags of this one as YAML, or the rules of auto")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    given = own_flags().parse_args(argv)
    if is_auto(given.name):
        _print_rules(given.json)
        return
    chosen = presets() if given.name is None else [find_preset(given.name)]
    if given.json:
        print(json.dumps([preset.to_dict() for preset in chosen], indent=2))
    elif given.name is not None:
        print(chosen[0].file.read_text(encoding="utf-8"), end="")
    else:
        rows = [("preset", "data set", "model", "MRR", "seconds", "hardware"), *map(_row, chosen)]
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def _print_rules(as_json: bool):
    rules = [dict(zip(("when", "flags", "why"), row)) for row in rows_of_table()]
    if as_json:
        print(json.dumps(rules, indent=2))
        return
    print("all rules that apply give flags, and a later one overrides an earlier one:")
    for rule in rules:
        print(f"{rule['when']}:\n    {rule['flags']}\n    ({rule['why']})")


def _row(preset: Preset):
    mrr = "-" if preset.mrr is None else f"{preset.mrr:.3f}"
    seconds = "-" if preset.seconds is None else f"{preset.seconds:.0f}"
    return preset.name, preset.dataset, preset.model_name, mrr, seconds, preset.hardware or "not run in full"
