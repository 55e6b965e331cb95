"""Starting a run from another one: rows of entities and relations that have the same names in both (--init_from)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np

from ...data import KnowledgeGraph, Names
from ...errors import InputError
from ...inference.run import Run
from ...models import find_model
from ...options import TrainConfig
from ..checkpoint.final_state import optimizer_states
from ..tables.tables import Tables

_TOGETHER = 1 << 16  # rows copied


class WarmStart:
    """The tables of another run, by name.

    Optimizer states come along where the other run has kept them. Without them the first steps move a row as far as
    they move one that was never trained: row-wise Adagrad divides a gradient by the size of all it has seen.
    """

    def __init__(self, config: TrainConfig):
        """Read the names before the new graph is loaded, which may write its own over them.

        Raises InputError: no such run, no names, or a model with other rows than the configuration's.
        """
        self._folder = Path(config.run.init_from)
        self._run = Run.load(self._folder)
        self._check_model(config)
        self._names = {what: self._read_names(what) for what in ("entity", "relation")}
        tables = ("entity", "relation") if self._run.model.projection is None else ("entity", "relation", "projection")
        self._states = optimizer_states(self._folder, tables)

    def _check_model(self, config: TrainConfig) -> None:
        theirs, ours = self._run.config, config.to_flags()
        differences = [f"{key} was {theirs[key]} and is {ours[key]}" for key in
                       ("hidden_dim", "double_ent", "double_rel") if theirs.get(key, ours[key]) != ours[key]]
        if bool(theirs.get("reciprocal")) != ours["reciprocal"]:
            differences.append(f"reciprocal was {bool(theirs.get('reciprocal'))} and is {ours['reciprocal']}")
        if find_model(theirs["model_name"]).name != find_model(ours["model_name"]).name:
            differences.insert(0, f"model_name was {theirs['model_name']} and is {ours['model_name']}")
        elif find_model(ours["model_name"]).phases and theirs["gamma"] != ours["gamma"]:
            differences.append(f"gamma, which scales their phases, was {theirs['gamma']} and is {ours['gamma']}")
        if differences:
            raise InputError(f"--init_from {self._folder} has other rows: {'; '.join(differences)}; "
                             "give the same flags")

    def _read_names(self, what: str) -> Names:
        try:
            names = self._run.entity_names if what == "entity" else self._run.relation_names
            len(names)  # reads the file, and checks that it is the run's
        except InputError as error:
            raise InputError(f"--init_from finds rows by name: {error}") from error
        return names

    def fill(self, tables: Tables, graph: KnowledgeGraph, custom_model=None) -> Dict[str, Any]:
        """Copy the rows that both have, over start values, and the state of a custom model.

        Returns what is reported of it in result.json.

        Raises InputError if the graph has no names, or none of its entities is in the other run.
        """
        found = {what: self._places(what, names) for what, names in
                 (("entity", graph.entity_names), ("relation", graph.relation_names))}
        counts = {what: int((places >= 0).sum()) for what, places in found.items()}
        if not counts["entity"]:
            raise InputError(f"no entity of {graph.name} has a name that {self._folder} knows, so there is nothing to "
                             "start from; leave --init_from out, or check how names are written in both")
        if self._run.model.reciprocal:
            places = found["relation"]
            found["relation"] = np.concatenate([places, np.where(places < 0, -1, places + graph.n_relations)])
        arrays, embeddings = tables.arrays(), tables.embeddings()
        if self._states is not None and any(self._states[name].shape[1:] != arrays[f"{name}_state"].shape[1:]
                                            for name in tables.stores):
            self._states = None  # of another optimizer
        for name in tables.stores:
            places = found["entity" if name == "entity" else "relation"]
            _copy(getattr(self._run.model, name), embeddings[name], places)
            if self._states is not None:
                _copy(self._states[name], arrays[f"{name}_state"], places)
        if self._run.model.scorer is not None:
            custom_model.load_state_dict(self._run.model.scorer.state_dict())
        message = {"folder": str(self._folder), "entities": counts["entity"], "relations": counts["relation"],
                "optimizer_states": self._states is not None}
        states = "with" if self._states is not None else "without"
        print(f"from {self._folder}: the rows of {counts['entity']:,} of {graph.n_entities:,} entities and "
              f"{counts['relation']:,} of {graph.n_relations:,} relations, by name, {states} their optimizer states; "
              "the others start at random")
        if self._states is None:
            print("without optimizer states the first steps move these rows as far as new ones; a smaller --lr keeps "
                  "more of them")
        return message

    def _places(self, what: str, names) -> np.ndarray:
        """For each row of the other run its row here, -1 for none."""
        if names is None:
            raise InputError(f"--init_from finds rows by name, but this graph has no {what} names; leave it out")
        return names.ids_of(self._names[what])


def _copy(theirs: np.ndarray, ours, places: np.ndarray) -> None:
    """Copy row i of theirs to row places[i] of ours, unless that is -1. Of ours only slices are read and written."""
    if theirs.shape[1:] != ours.shape[1:]:
        raise InputError(f"--init_from has rows of {theirs.shape[1]} numbers, but {ours.shape[1]} are needed; give the "
                         "flags of that run")
    order = np.argsort(places, kind="stable")
    order = order[np.searchsorted(places, 0, sorter=order) :]
    targets = places[order]
    for begin in range(0, len(ours), _TOGETHER):
        rows = slice(begin, min(begin + _TOGETHER, len(ours)))
        here = slice(*np.searchsorted(targets, (rows.start, rows.stop)))
        block = ours[rows]
        block[targets[here] - begin] = theirs[order[here]]
        ours[rows] = block
