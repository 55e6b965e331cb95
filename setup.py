"""Builds the C++ extension with CMake and ninja; everything static about the package is in pyproject.toml.

Environment variables:
    DGLKE_FRUGAL_CUDA        auto (default: the kernels for the GPUs that are seen, if any), on, off
    DGLKE_FRUGAL_CUDA_ARCHS  CUDA architectures as CMake writes them, e.g. "90" or "75;80;90" (default with on: all)
    DGLKE_FRUGAL_MARCH       target processor of the C++ code, e.g. "native" (default x86-64-v3 on x86-64)
"""
import os
import runpy
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

STABLE_ABI = sys.version_info >= (3, 12) and sys.implementation.name == "cpython"


class CMakeExtension(Extension):
    def __init__(self, name):
        super().__init__(name, sources=[], py_limited_api=STABLE_ABI)


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        source = Path(__file__).resolve().parent
        target = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        build = source / "build" / f"extension-{sys.implementation.cache_tag}"  # kept, so that rebuilding is quick
        build.mkdir(parents=True, exist_ok=True)
        cuda = os.environ.get("DGLKE_FRUGAL_CUDA", "auto")
        if cuda not in ("auto", "on", "off"):
            sys.exit(f"DGLKE_FRUGAL_CUDA is {cuda!r}; it must be auto, on or off")
        options = {"CMAKE_BUILD_TYPE": "Release", "CMAKE_INSTALL_PREFIX": target, "Python_EXECUTABLE": sys.executable,
                   "FRUGAL_CUDA": cuda.upper(), "FRUGAL_MARCH": os.environ.get("DGLKE_FRUGAL_MARCH", "")}
        architectures = os.environ.get("DGLKE_FRUGAL_CUDA_ARCHS")
        chosen = f"-DCMAKE_CUDA_ARCHITECTURES={architectures}" if architectures else "-UCMAKE_CUDA_ARCHITECTURES"
        # cmake and ninja of this Python's environment come before those of the system, which may be too old.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        environment = {**os.environ, "PATH": path}
        configure = ["cmake", "-G", "Ninja", str(source), chosen,
                     *(f"-D{key}={value}" for key, value in options.items())]
        subprocess.run(configure, cwd=build, check=True, env=environment)
        subprocess.run(["cmake", "--build", ".", "--target", "install"], cwd=build, check=True, env=environment)


class SourceDistribution(sdist):
    """With the commit that it was made from, which benchmarks record."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        commit = runpy.run_path(str(Path(__file__).resolve().parent / "benchmarks" / "commit.py"))
        commit["write"](Path(base_dir))


setup(ext_modules=[CMakeExtension("dglke_frugal._native")],
      cmdclass={"build_ext": CMakeBuild, "sdist": SourceDistribution},
      options={"bdist_wheel": {"py_limited_api": "cp312"}} if STABLE_ABI else {})
