"""The version of the installed package."""
from importlib import metadata


def version() -> str:
    """As pip knows it."""
    try:
        return metadata.version("dglke-frugal")
    except metadata.PackageNotFoundError:
        return "unknown (the package is not installed)"
