"""Everything public says what it is: the API reference is made of these sentences."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dglke_frugal"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__main__.py")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def public(nodes, kinds):
    return [node for node in nodes if isinstance(node, kinds) and not node.name.startswith("_")]


def is_overload_of_property(node):
    return any(isinstance(decorator, ast.Attribute) and decorator.attr == "setter" for decorator in node.decorator_list)


def name_of(base):
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def explained_methods(paths):
    """By class name: for each class of that name, its base classes' names, and the methods that have a docstring."""
    found = {}
    for path in paths:
        for owner in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(owner, ast.ClassDef):
                documented = {method.name for method in public(owner.body, FUNCTIONS) if ast.get_docstring(method)}
                found.setdefault(owner.name, []).append((set(map(name_of, owner.bases)) - {owner.name}, documented))
    return found


def is_explained(owner, method, known):
    """Whether a class of this name, or one that it is derived from, says what the method does."""
    return any(method in documented or any(is_explained(base, method, known) for base in bases)
               for bases, documented in known.get(owner, ()))


def without_docstring(path, known):
    """Names in a module that say nothing. A method may leave it to its base class, or to its interface in the same
    module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = public(tree.body, ast.ClassDef)
    methods = [(owner, method) for owner in classes for method in public(owner.body, FUNCTIONS)]
    documented = {method.name for _, method in methods if ast.get_docstring(method)}
    missing = [] if ast.get_docstring(tree) else ["the module"]
    missing += [node.name for node in public(tree.body, (*FUNCTIONS, ast.ClassDef)) if not ast.get_docstring(node)]
    missing += [f"{owner.name}.{method.name}"
                for owner, method in methods
                if method.name not in documented
                and not is_explained(owner.name, method.name, known)
                and not is_overload_of_property(method)]
    return missing


KNOWN = explained_methods(MODULES)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_everything_public_has_a_docstring(path):
    assert without_docstring(path, KNOWN) == []


def test_the_check_finds_what_is_missing(tmp_path):
    (tmp_path / "m.py").write_text("class A:\n    'a'\n    def f(self): 'f'\n    def g(self): pass\n"
                                   "class B:\n    def f(self): pass\n    def _h(self): pass\ndef k(): pass\n")
    (tmp_path / "n.py").write_text("'n'\nclass C(A):\n    'c'\n    def f(self): pass\n    def g(self): pass\n")
    known = explained_methods(tmp_path.glob("*.py"))
    assert without_docstring(tmp_path / "m.py", known) == ["the module", "B", "k", "A.g"]
    assert without_docstring(tmp_path / "n.py", known) == ["C.g"]
