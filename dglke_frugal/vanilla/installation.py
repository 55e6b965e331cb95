"""Makes `import dgl` and `import dglke` work in this process."""
from __future__ import annotations

import importlib
import os
import sys

from .modules import ModuleView, module, visible
from .removed_modules import before_dgl, before_dglke, contrib
from .versions import check_versions

# dglke looks up what dgl removed while its modules are imported, so all of them are imported here, at once.
_DGLKE_MODULES = ("train", "eval", "infer_score", "infer_emb_sim", "partition", "convert")


def install() -> None:
    """Import dgl and dglke with what they miss. Does nothing the second time.

    Only dglke sees the stand-ins: `dgl`, `sys.modules` and everything else in the process stay as they are.

    Raises InputError if dgl or dglke is absent, or a release is installed that is not supported.
    """
    if "dglke.train" in sys.modules:
        return
    check_versions()
    os.environ.setdefault("DGLBACKEND", "pytorch")  # dgl otherwise writes a file into the home folder and prints
    with visible(*before_dgl()):
        import dgl
    from . import partition, repairs
    from .graph import ReadOnlyGraph
    from .sampler import EdgeSampler

    sampling = module("dgl.contrib.sampling", EdgeSampler=EdgeSampler)
    removed = contrib(sampling=sampling)
    transform = module("dgl.transform", metis_partition=partition.metis_partition)
    old_dgl = ModuleView(dgl, DGLGraph=ReadOnlyGraph, contrib=removed, transform=transform)
    with visible(old_dgl, removed, *before_dglke()):
        for name in _DGLKE_MODULES:
            importlib.import_module("dglke." + name)
    repairs.repair_top_k(sys.modules["dglke.models.infer"])
    repairs.repair_edge_importance(sys.modules["dglke.dataloader.KGDataset"])
