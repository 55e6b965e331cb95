"""Where only what the package requires is installed: everything else that is here cannot be imported, nor is it listed.

    python tests/packaging/bare_environment.py CODE ARGUMENT...    runs CODE so
"""
import re
import sys
from importlib import metadata

REQUIRED = ("torch", "numpy", "tqdm", "pyyaml")
OURS = ("dglke-frugal", "pip", "setuptools")  # of a virtual environment, before anything is installed


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required_packages():
    """The required packages and the packages that they require themselves, by their normal names."""
    found, new = set(map(normal, OURS)), list(REQUIRED)
    while new:
        name = normal(new.pop())
        if name in found:
            continue
        found.add(name)
        try:
            declared = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another platform
            continue
        new += [re.match(r"[\w.-]+", each)[0] for each in declared if "extra ==" not in each]
    return found


def modules_of(distribution):
    """Names of the modules and packages at a distribution's top."""
    tops = {file.parts[0] for file in distribution.files or () if file.suffix in (".py", ".so")}
    return {top.partition(".")[0] for top in tops if top.isidentifier() or top.endswith((".py", ".so"))}


def hide_what_is_not_required():
    required = required_packages()
    kept, others = set(), set()
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if name is not None:  # else another test builds it at this moment
            (kept if normal(name) in required else others).update(modules_of(each))
    hidden = others - kept

    class NotThere:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.partition(".")[0] in hidden:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, NotThere)
    version = metadata.version

    def version_of_required(name):
        if normal(name) not in required:
            raise metadata.PackageNotFoundError(name)
        return version(name)

    metadata.version = version_of_required
    return hidden


if __name__ == "__main__":
    hidden = hide_what_is_not_required()
    code = sys.argv.pop(1)
    exec(compile(code, "CODE", "exec"), {"__name__": "__main__", "hidden": hidden})
