"""The process of a rank that rank 0 has started: python -m dglke_frugal.training.rank_process SOCKET RANK"""
from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from .ranks import follow

if __name__ == "__main__":
    sys.exit(follow(Connection(int(sys.argv[1])), int(sys.argv[2])))
