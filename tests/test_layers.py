"""Layers point one way, in the package and in csrc, and no modules import each other in a circle."""
import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "dglke_frugal"

# From the bottom to the top: each imports only what comes before it, within functions too. A folder stands for all in
# it that has no place of its own.
LAYERS = """
errors nearest version arrays npy_files available_memory hardware extras progress output files saved_tables frames
divergence models models.device
score_rule flag_values option options removed_flags
optim store.device store.rows store embedding
data arguments data.given_triples presets
evaluation vanilla
training.log training.tables training.processes training.batches training.step training.full_softmax training.checkpoint
report.run_log inference
training.plan resolve training.run training.parallel training.machines training
vanilla.adapter
report search
cli python_training __main__ __init__ cli.stub
""".split()

# Likewise folders and files of csrc. Its tests may include anything.
CSRC_LAYERS = ("base", "table", "engine", "cache", "rows", "comm", "store", "machines", "sampler", "data", "models",
               "ranking", "step", "full_softmax", "no_cuda.cpp", "bindings", "headers.cpp", "tests")


def modules() -> dict:
    """Paths of the package's modules by their names within it; the package itself is "__init__"."""
    found = {}
    for path in (ROOT / PACKAGE).rglob("*.py"):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


def is_for_types(node: ast.AST) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`, whose imports no program executes."""
    return isinstance(node, ast.If) and re.fullmatch(r"(typing\.)?TYPE_CHECKING", ast.unparse(node.test)) is not None


def imports_of(tree: ast.AST, package: tuple, known: dict):
    """(line, module) of each import of the package's own modules, wherever it stands. package: parts of the name of the
    package that the module is in."""
    for node in ast.iter_child_nodes(tree):
        if is_for_types(node):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            yield from imports_of(node, package, known)
            continue
        for name in names:
            if name.split(".")[0] != PACKAGE or name == f"{PACKAGE}._native" or name.startswith(f"{PACKAGE}._native."):
                continue
            inner = name[len(PACKAGE) + 1 :]
            while inner and inner not in known:  # a name in a module
                inner = inner.rpartition(".")[0]
            yield node.lineno, inner or "__init__"


@functools.lru_cache(None)
def graph() -> dict:
    """{module: {module that it imports: line}}."""
    known = modules()
    found = {}
    for name, path in known.items():
        package = path.relative_to(ROOT).parent.parts
        lines = imports_of(ast.parse(path.read_text(encoding="utf-8")), package, known)
        found[name] = {imported: line for line, imported in lines if imported != name}
    return found


def place(module: str, layers=tuple(LAYERS)) -> int:
    """Where the module stands in the layers."""
    name = module
    while name and name not in layers:
        name = name.rpartition(".")[0]
    assert name, f"{module} has no place: say in LAYERS what it may import"
    return layers.index(name)


def circle(edges: dict) -> list:
    """Names that lead from one of them back to it, or none."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name) :] + [name]
        if name in done:
            return []
        path.append(name)
        for other in edges[name]:
            if found := visit(other):
                return found
        path.pop()
        done.add(name)
        return []

    return next(filter(None, map(visit, edges)), [])


def test_no_modules_import_each_other_in_a_circle():
    assert " -> ".join(circle(graph())) == ""


def test_imports_point_down():
    assert [f"{name} imports {other} (line {line})" for name, imported in graph().items()
            for other, line in imported.items() if place(other) > place(name)] == []


def test_no_folder_of_training_imports_what_lies_above_it():
    above = {name for name in graph() if name.startswith("training.") and name.count(".") == 1
             and not (ROOT / PACKAGE / name.replace(".", "/")).is_dir()}
    assert [f"{name} imports {other}" for name, imported in graph().items() if name.count(".") > 1
            and name.startswith("training.") for other in imported if other in above] == []


def test_every_layer_is_there():
    found = modules()
    assert [layer for layer in LAYERS if layer not in found] == []
    assert [layer for layer in CSRC_LAYERS if not (ROOT / "csrc" / layer).exists()] == []


def test_includes_point_down():
    csrc, wrong = ROOT / "csrc", []
    for path in (path for path in csrc.rglob("*") if path.suffix in (".h", ".cuh", ".cpp", ".cu")):
        own = path.relative_to(csrc).parts[0]
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M):
            other = included.split("/")[0]
            if own != "tests" and CSRC_LAYERS.index(other) > CSRC_LAYERS.index(own):
                wrong.append(f"{path.relative_to(csrc)} includes {included}")
    assert wrong == []


def test_an_arrow_up_and_a_circle_are_seen():
    """In a function, by a name within a module, from a package; but not what is for types alone."""
    known = {name: None for name in ("a", "a.b", "c", "__init__")}
    text = ("import dglke_frugal.c\nfrom . import b\nfrom .b import x\nfrom .. import _native, __version__\n"
            "def f():\n    from ..c import y\nif TYPE_CHECKING:\n    from ..c import z\n")
    found = list(imports_of(ast.parse(text), (PACKAGE, "a"), known))
    assert found == [(1, "c"), (2, "a.b"), (3, "a.b"), (4, "__init__"), (6, "c")]
    assert circle({"a": {"b": 1}, "b": {"c": 2}, "c": {"b": 3}}) == ["b", "c", "b"]
    assert place("training.run.loop") < place("training.trainer") and place("store.rows.x") < place("store.x")
