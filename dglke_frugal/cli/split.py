"""`dglke_frugal split`: one file of triples becomes train, valid and test."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
from itertools import permutations
from pathlib import Path

from ..errors import InputError, shown
from ..files import check_output, replace_file, write_json
from .errors import reports_input_errors
from .tool_flags import Parser, messages_apart_from

_SHOWN = 10  # overlapping relations
_REPORT = rb'\{\s*"entities"'  # the beginning of the file of --json


def own_flags() -> Parser:
    """The command's flags."""
    parser = Parser(
        prog="dglke_frugal split",
        description="Divide a file of triples (names; text, gzip or not, CSV or Parquet) into train, valid and test, "
        "so that every entity and every relation stays in train. A triple that the file holds twice is kept once. "
        "Relations that give another one's test triples away are named.")
    parser.add_argument("file", type=Path, help="lines of head, relation, tail; further columns are copied, too")
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        help="folder of the new files (next to FILE, named after it)")
    parser.add_argument("--valid", type=_amount, default=0.05, metavar="SHARE",
                        help="share of the triples for valid, or their number (0.05)")
    parser.add_argument("--test", type=_amount, default=0.05, metavar="SHARE",
                        help="share of the triples for test, or their number (0.05)")
    parser.add_argument("--order", choices=["".join(order) for order in permutations("hrt")], default="hrt",
                        help="order of the columns head, relation, tail (%(default)s)")
    parser.add_argument("--delimiter", default="\t", help="what separates the columns (TAB)")
    parser.add_argument("--has_edge_importance", action="store_true", help="the fourth column is the edge's weight")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    return parser


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    options = own_flags().parse_args(argv)
    out = options.out or options.file.parent / _name(options.file)
    if options.seed < 0:
        raise InputError(f"--seed is {options.seed}; give a number that is not negative")
    if options.json:
        check_output(options.json, _REPORT, made=out)
    report = _split(options, out)
    with messages_apart_from(options.json):
        print("\n".join(_lines(report, options.file)))
    if options.json:
        check_output(options.json, _REPORT)  # again, for it may be one of the files that are new
        write_json(options.json, report)


def _amount(text: str) -> float:
    """A share below 1 as a float, or a number of triples as an int."""
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{shown(text)}' is neither a share nor a number of triples") from None


def _name(file: Path) -> str:
    """Name of the data set and of its folder: that of the file without its ending (.tsv, .tsv.gz).

    With something behind it where the file itself or one of DGL-KE's data sets has that name.
    """
    from ..data.load import BUILT_IN

    stem = re.sub(r"^-|[\x00-\x1f\x7f]", "_", Path(file.name.removesuffix(".gz")).stem)[:45]
    return stem if stem and stem != file.name and stem not in BUILT_IN else f"{stem or file.name}_split"


def _count(name: str, amount, triples: int) -> int:
    count = amount if isinstance(amount, int) else round(amount * triples) if 0 <= amount < 1 else -1
    if count < 0:
        raise InputError(f"--{name} is {amount}; give a share in [0, 1) or a number of triples")
    return count


def _split(options, out: Path) -> dict:
    from ..data import Triples, load_graph
    from ..data.name_maps import white_space_lines
    from ..data.splitting import distinct, divide, given_away, overlaps

    if not options.file.exists():
        raise InputError(f"{options.file} does not exist; give the file of the triples")
    graph = load_graph(_name(options.file), options.file.parent, f"raw_udd_{options.order}", [options.file.name],
                       options.delimiter, options.has_edge_importance)
    first = distinct(graph.train)
    triples = Triples(*(column[first] for column in graph.train))
    asked = {name: _count(name, getattr(options, name), len(triples)) for name in ("valid", "test")}
    parts = divide(triples, **asked, seed=options.seed)
    found = overlaps(triples, graph.n_entities, graph.n_relations)
    train, test = (Triples(*(column[parts[name]] for column in triples)) for name in ("train", "test"))
    _prepare(out, options.file)
    files = {name: f"{name}.tsv" for name, part in parts.items() if len(part) or name == "train"}
    chosen = {out / file: first[parts[name]] for name, file in files.items()}
    if _has_plain_lines(options):
        _write(options.file, len(graph.train), chosen)
    else:
        if options.has_edge_importance:
            raise InputError(f"{options.file} begins with a header, without which lines cannot be copied; remove it")
        _write_names(graph, chosen)
        options.order, options.delimiter = "hrt", "\t"
    return {
        "entities": graph.n_entities,
        "relations": graph.n_relations,
        "triples": len(triples),
        "duplicates": len(graph.train) - len(triples),
        "splits": {name: len(part) for name, part in parts.items()},
        "asked": asked,
        "overlaps": [{"relations": [graph.relation_names[each.first], graph.relation_names[each.second]],
                      "inverse": each.inverse, "share": list(each.share)}
                     for each in found],
        "test_given_away": given_away(test, train, found, graph.n_entities, graph.n_relations),
        "notes": white_space_lines(graph),
        "folder": str(out),
        "command": _command(options, graph.name, out, files)}


def _prepare(out: Path, file: Path) -> None:
    """Make the folder. Raises InputError if that cannot be, or if it has files that the new ones would not go with."""
    from ..data.find_files import ENDINGS
    from ..data.layouts import SPLITS

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}; give another one with --out") from error
    there = [path for name in SPLITS for ending in ENDINGS if os.path.lexists(path := out / f"{name}{ending}")]
    if any(path.resolve() == file.resolve() for path in there):
        raise InputError(f"{file} is the file that is divided; choose another folder with --out")
    if there:
        raise InputError(f"{' and '.join(map(str, there))} {'is' if len(there) == 1 else 'are'} there already, and "
                         "would not go with the new files; remove what is old, or choose another folder with --out")


def _has_plain_lines(options) -> bool:
    """Whether each line of the file is a triple, which stays as it is, rather than a row of a table, or a header."""
    from ..data.table_files import is_table
    from ..data.text import LineFormat, with_header

    return not is_table(options.file, options.delimiter) and not with_header(
        options.file, LineFormat(options.order, options.delimiter)).header


def _write_names(graph, chosen: dict) -> None:
    """Write triples of a graph as lines of head, relation and tail, apart by TAB. chosen: as of _write."""
    for path, rows in chosen.items():
        columns = [[names[number] for number in column[rows].tolist()] for names, column in zip(
            (graph.entity_names, graph.relation_names, graph.entity_names), graph.train)]
        with replace_file(path, "w") as file:
            file.writelines("\t".join(triple) + "\n" for triple in zip(*columns))


def _write(source: Path, lines: int, chosen: dict) -> None:
    """Copy the chosen lines of a file into others, as they are, so that each reads there as it does here.

    lines: how many the file has. chosen: numbers of lines, ascending, by the file that they go to.
    """
    import numpy as np

    from ..data import text
    from ..progress import progress

    part = np.full(lines, len(chosen), np.uint8)
    for number, rows in enumerate(chosen.values()):
        part[rows] = number
    with contextlib.ExitStack() as stack, progress(lines, f"dividing {source.name}", "triples") as bar:
        files = [stack.enter_context(replace_file(path)) for path in chosen]
        for before, rows, block in text.blocks(source):
            if before + rows > lines:
                raise InputError(f"{source} changed while it was read; start again when it is complete")
            ends = np.flatnonzero(block == ord("\n")) + 1
            of_bytes = np.repeat(part[before : before + rows], np.diff(ends, prepend=0))
            for number, file in enumerate(files):
                file.write(block[of_bytes == number].tobytes())
            bar.update(rows)


def _command(options, name: str, out: Path, files) -> str:
    folder = os.path.join(".", out) if str(out)[0] == "-" else str(out)
    words = ["dglke_train", "--dataset", name, "--data_path", folder, "--format", f"raw_udd_{options.order}",
             "--data_files", *files.values()]
    if options.delimiter != "\t":
        words += [f"--delimiter={options.delimiter}"]
    if options.has_edge_importance:
        words.append("--has_edge_importance")
    if len(files) == 3:  # one of valid and test alone cannot be named
        words += ["--valid", "--test"]
    return shlex.join(words)


def _lines(report: dict, file: Path) -> list:
    splits, triples = report["splits"], report["triples"]
    twice = report["duplicates"]
    lines = [f"{file}: {triples:,} triples of {report['entities']:,} entities and {report['relations']:,} relations"
             + (f"; {twice:,} more that stand there twice are left out" if twice else "")]
    lines.append(", ".join(f"{name} {count:,}" for name, count in splits.items())
                 + "; every entity and every relation is in train")
    wanted = sum(report["asked"].values())
    if splits["valid"] + splits["test"] < wanted:
        lines.append(f"{wanted:,} were to be held out, but all others are the only ones of an entity or relation")
    lines += report["notes"]
    lines += _overlap_lines(report["overlaps"], report["test_given_away"], splits["test"])
    return [*lines, f"Saved in {report['folder']}; train with:", f"    {report['command']}"]


def _overlap_lines(found: list, given_away: int, tested: int) -> list:
    lines = []
    for each in found[:_SHOWN]:
        (first, second), shares = each["relations"], each["share"]
        if first == second:
            lines.append(f"symmetric: {first} ({shares[0]:.0%} of its pairs both ways)")
        else:
            kind = "inverse" if each["inverse"] else "duplicate"
            lines.append(f"{kind}: {first} and {second} (share {shares[0]:.0%} and {shares[1]:.0%} of their pairs)")
    if len(found) > _SHOWN:
        lines.append(f"... and {len(found) - _SHOWN} more; --json writes all")
    if found and tested:
        lines.append(f"{given_away:,} of {tested:,} test triples stand in train under such a relation, so a model that "
                     "copies answers them; to test more than that, leave one relation of each pair out")
    return lines
