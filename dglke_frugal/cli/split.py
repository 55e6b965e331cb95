"""`dglke_frugal split`: one file of triples becomes train, valid and test."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from ..errors import InputError
from .errors import reports_input_errors
from .tool_flags import Parser

_SHOWN = 10  # overlapping relations


@reports_input_errors
def main(argv):
    """Entry point. argv: the arguments without the program's name."""
    parser = Parser(
        prog="dglke_frugal split",
        description="Divide a file of triples (names, gzip or not) into train, valid and test, so that every entity "
        "and every relation stays in train. Triples that stand there twice are kept once. Relations that give another "
        "one's test triples away are named.",
    )
    parser.add_argument("file", type=Path, help="lines of head, relation, tail; further columns are left out")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the files (beside FILE, named after it)")
    parser.add_argument("--valid", type=_amount, default=0.05, metavar="SHARE", help="or a number of triples (0.05)")
    parser.add_argument("--test", type=_amount, default=0.05, metavar="SHARE", help="or a number of triples (0.05)")
    parser.add_argument("--order", default="hrt", help="which columns are head, relation, tail (%(default)s)")
    parser.add_argument("--delimiter", default="\t", help="what separates the columns (TAB)")
    parser.add_argument("--has_edge_importance", action="store_true", help="keep the fourth column, the edge's weight")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other triples (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write what is said as JSON")
    options = parser.parse_args(argv)
    out = options.out or options.file.parent / _stem(options.file)
    if options.seed < 0:
        raise InputError(f"--seed is {options.seed}; give a number that is not negative")
    report = _split(options, out)
    print("\n".join(_lines(report, options.file)))
    if options.json:
        from ..files import replace_file

        with replace_file(options.json, "w") as file:
            json.dump(report, file, indent=2)
            file.write("\n")


def _amount(text: str) -> float:
    """A share below 1 as a float, or a number of triples as an int."""
    return int(text) if text.strip().isdigit() else float(text)


def _stem(file: Path) -> str:
    """The name without its endings; with something behind it where it has none, for the file stands in the way."""
    stem = file.name.split(".")[0]
    return stem if stem and stem != file.name else f"{file.name}_split"


def _count(name: str, amount, triples: int) -> int:
    count = amount if isinstance(amount, int) else round(amount * triples) if 0 <= amount < 1 else -1
    if count < 0:
        raise InputError(f"--{name} is {amount}; give a share in [0, 1) or a number of triples")
    return count


def _split(options, out: Path) -> dict:
    from ..data import Triples, load_graph
    from ..data.splitting import distinct, divide, given_away, overlaps

    graph = load_graph(_stem(options.file), options.file.parent, f"raw_udd_{options.order}", [options.file.name],
                       options.delimiter, options.has_edge_importance)
    first = distinct(graph.train)
    triples = Triples(*(column[first] for column in graph.train),
                      None if graph.train.weight is None else graph.train.weight[first])
    asked = {name: _count(name, getattr(options, name), len(triples)) for name in ("valid", "test")}
    parts = divide(triples, **asked, seed=options.seed)
    found = overlaps(triples, graph.n_entities, graph.n_relations)
    train, test = (Triples(*(column[parts[name]] for column in triples)) for name in ("train", "test"))
    _make_folder(out)
    files = {name: f"{name}.tsv" for name, part in parts.items() if len(part) or name == "train"}
    for name, file in files.items():
        if (out / file).resolve() == options.file.resolve():
            raise InputError(f"{out / file} is the file that is divided; choose another folder with --out")
    for name, file in files.items():
        _write(out / file, graph, triples, parts[name], options)
    return {
        "entities": graph.n_entities,
        "relations": graph.n_relations,
        "triples": len(triples),
        "duplicates": len(graph.train) - len(triples),
        "splits": {name: len(part) for name, part in parts.items()},
        "asked": asked,
        "overlaps": [
            {"relations": [graph.relation_names[each.first], graph.relation_names[each.second]],
             "inverse": each.inverse, "share": list(each.share)}
            for each in found
        ],
        "test_given_away": given_away(test, train, found, graph.n_entities, graph.n_relations),
        "folder": str(out),
        "command": _command(options, graph.name, out, files),
    }


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}; give another one with --out") from error


def _write(path: Path, graph, triples, chosen, options) -> None:
    """Lines in the order of the file that they come from, its columns in their order."""
    from ..files import replace_file
    from ..progress import progress

    entities, relations = graph.entity_names, graph.relation_names
    together = 1 << 16
    with replace_file(path, "w") as file, progress(len(chosen), f"writing {path.name}", "triples") as bar:
        for begin in range(0, len(chosen), together):
            part = chosen[begin : begin + together]
            columns = {letter: [names[i] for i in column[part].tolist()]
                       for letter, names, column in zip("hrt", (entities, relations, entities), triples)}
            fields = [columns[letter] for letter in options.order]
            if triples.weight is not None:
                fields.append(map(str, triples.weight[part]))
            file.write("".join(options.delimiter.join(row) + "\n" for row in zip(*fields)))
            bar.update(len(part))


def _command(options, name: str, out: Path, files) -> str:
    words = ["dglke_train", "--dataset", name, "--data_path", str(out), "--format", f"raw_udd_{options.order}",
             "--data_files", *files.values()]
    if options.delimiter != "\t":
        words += ["--delimiter", options.delimiter]
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


if __name__ == "__main__":
    main()
