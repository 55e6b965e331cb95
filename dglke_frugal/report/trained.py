"""The trained tables and the graph of a run, where they still are, for its report."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, Sequence

from ..data import KnowledgeGraph
from ..errors import InputError
from ..inference.run import Run
from ..inference.tables import has_data
from .run_log import RunLog

Namer = Callable[[int], str]


@dataclass(frozen=True)
class Trained:
    """run: None if its tables cannot be read. graph: the one that it was trained on, None if it is not where it was.

    entity, relation: functions from ids to names, or to "entity 7" where there are none. why_not: why there is no run.
    """

    run: Optional[Run]
    graph: Optional[KnowledgeGraph]
    entity: Namer
    relation: Namer
    why_not: str = ""


def find_trained(log: RunLog) -> Trained:
    """The tables and the graph of a run; nothing is downloaded."""
    try:
        run = Run.load(log.folder, check_values=False)
    except InputError as error:
        return Trained(None, None, _namer("entity", lambda: None), _namer("relation", lambda: None), str(error))
    graph = _find_graph(run)
    return Trained(run, graph, _namer("entity", lambda: run.entity_names),
                   _namer("relation", lambda: run.relation_names))


def _namer(what: str, names: Callable[[], Optional[Sequence[str]]]) -> Namer:
    """names: fetches them; that, or their first use, may raise InputError, for files of names may hold a count
    alone."""
    try:
        found = names()
        known = 0 if found is None else len(found)
    except InputError:
        known = 0
    return lambda number: found[number] if number < known else f"{what} {number}"


def _find_graph(run: Run) -> Optional[KnowledgeGraph]:
    """The graph that the run was trained on, if it is still what and where it was."""
    if not has_data(Path(run.config["data_path"]), run.config):
        return None
    try:
        return run.graph
    except InputError:
        return None
