"""DGL-KE's own training program with our store, our reader of graphs and our writer of configurations under it.

DGL-KE looks these names up in its modules when it needs them, so replacing the names is enough:
ExternalEmbedding (the store), get_dataset (checked, streaming reader), save_model (atomic, all keys), load_model and
the partition and iterator functions where its own crash.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import numpy as np

from ... import _native, vanilla
from ...data.fingerprint import Fingerprint
from ...data.name_maps import keep_name_maps
from ...divergence import check_rows
from ...errors import InputError
from ...models import MODELS, built_in_model
from ...options import TrainConfig
from ...score_rule import log_if_two_formulas
from ...training.checkpoint.run_folder import create_run_folder, write_config
from ...training.processes.available_threads import check_threads, threads_of_run
from ...training.run.session import load, thread_count
from ...training.tables.tables import entity_flushing, hot_entities
from .embedding import DGLKEAdapter
from .lookahead import AnnouncingIterator


def train(config: TrainConfig) -> None:
    """Train as `dglke_train` does; prints and writes what DGL-KE prints and writes.

    Raises InputError for a graph that cannot be read, a folder that cannot be written, or a flag that DGL-KE's own
    loop does not have.
    """
    _check(config)
    check_threads(threads_of_run(config, thread_count(config)))
    vanilla.install()
    graph = load(config)
    config = _without_crashes(config, graph)
    log_if_two_formulas(config.model.model_name, config.model.score_rule)
    folder = create_run_folder(config)
    if not config.run.no_save_emb:
        graph = keep_name_maps(graph, folder, Path(config.graph.data_path))
    with _replaced(config, graph, folder):
        vanilla.run("train", _arguments(config), seed=config.run.seed)


def _check(config: TrainConfig) -> None:
    model = built_in_model(config.model.model_name)
    if not (model and model.in_dglke) or config.loss.pairwise or config.loss.loss_genre != "Logsigmoid":
        models = ", ".join(each.name for each in MODELS if each.in_dglke)
        raise InputError(f"DGL-KE 0.1.2's loop has {models} with the loss Logsigmoid; use --trainer native")


def _without_crashes(config: TrainConfig, graph) -> TrainConfig:
    """The same run without the flags that mean nothing in it but crash DGL-KE."""
    device = config.device
    if device.num_proc == 1 and len(device.gpu) == 1:
        device = replace(device, rel_part=False, force_sync_interval=-1)
    return replace(config, device=device)


def _arguments(config: TrainConfig) -> list[str]:
    """DGL-KE 0.1.2's command line for the configuration."""
    import dglke.train

    known = {action.dest for action in dglke.train.ArgParser()._actions}
    arguments = []
    for name, value in config.to_flags().items():
        if name not in known or value is None or value is False:
            continue
        arguments.append(f"--{name}")
        if isinstance(value, (list, tuple)):
            arguments += [str(item) for item in value]
        elif value is not True:
            arguments.append(str(value))
    return arguments


@contextlib.contextmanager
def _replaced(config: TrainConfig, graph, folder) -> Iterator[None]:
    """DGL-KE's modules with our pieces in place, as they were afterwards."""
    import dglke.dataloader.sampler
    import dglke.models.general_models
    import dglke.train

    stores = _Stores(config, graph)
    pieces: list[tuple[Any, str, Any]] = [
        (dglke.models.general_models, "ExternalEmbedding", stores.create),
        (dglke.train, "get_dataset", lambda *_: _dataset(graph)),
        (dglke.train, "prepare_save_path", lambda args: setattr(args, "save_path", str(folder))),
        (dglke.train, "save_model", lambda args, model, emap, rmap: _save(config, graph, folder, model, stores)),
        (dglke.train, "load_model", _loader(dglke.train.load_model)),
        (dglke.train, "NewBidirectionalOneShotIterator", _iterator(dglke.train.NewBidirectionalOneShotIterator)),
        (dglke.train, "train", _reading_ahead(dglke.train.train, config, stores)),
        (dglke.dataloader.sampler, "SoftRelationPartition", _partition(dglke.dataloader.sampler))]
    originals = [getattr(module, name) for module, name, _ in pieces]
    for module, name, piece in pieces:
        setattr(module, name, piece)
    try:
        yield
    finally:
        for (module, name, _), original in zip(pieces, originals):
            setattr(module, name, original)


def _dataset(graph) -> SimpleNamespace:
    """The graph in the shape of dglke's KGDataset; arrays are copies, because DGL-KE shuffles them in place."""

    def columns(triples):
        if triples is None:
            return None
        ids = [np.array(column, np.int64) for column in (triples.head, triples.relation, triples.tail)]
        return tuple(ids) if triples.weight is None else (*ids, np.array(triples.weight))

    return SimpleNamespace(n_entities=graph.n_entities, n_relations=graph.n_relations, emap_fname=None, rmap_fname=None,
                           train=columns(graph.train), valid=columns(graph.valid), test=columns(graph.test))


def _save(config, graph, folder, model, stores) -> None:
    for adapter in stores.made:
        adapter.store.drain()
        check_rows(adapter.store.embeddings, "a table")
    print(f"Save model to {folder}")
    model.save_emb(str(folder), config.graph.dataset)
    write_config(folder, config, graph, Fingerprint.of(graph))


class _Stores:
    """Makes the adapters as DGL-KE asks for them: the entities' first."""

    def __init__(self, config, graph):
        self._config, self._graph = config, graph
        self.entity, self.made = None, []

    def create(self, args, num, dim, device):
        if self.entity is not None or not self._config.uses_engine or args.num_proc > 1:
            adapter = DGLKEAdapter(args, num, dim, device)
        else:
            flushing = entity_flushing(self._config, num, dim)
            adapter = DGLKEAdapter(args, num, dim, device, flushing, [hot_entities(self._graph)])
        self.entity = self.entity or adapter
        self.made.append(adapter)
        return adapter


def _reading_ahead(original, config, stores):
    def train(args, model, train_sampler, valid_samplers=None, *rest, **options):
        if config.uses_engine and args.num_proc == 1:
            interval = args.eval_interval if args.valid else 0
            train_sampler = AnnouncingIterator(train_sampler, stores.entity.store, config.store.lookahead,
                                               args.max_step, interval)
        return original(args, model, train_sampler, valid_samplers, *rest, **options)

    return train


def _loader(load_model):
    def load(args, n_entities, n_relations, ckpt=None):
        # Every process reads relations from the one shared table, so no process keeps copies of its own.
        args.strict_rel_part = args.soft_rel_part = False
        _native.set_num_threads(args.num_thread if args.num_proc > 1 else _native.num_threads())
        return load_model(args, n_entities, n_relations, ckpt)

    return load


def _iterator(original):
    def create(head, tail, neg_chunk_size, neg_sample_size, is_chunked, num_nodes, has_edge_importance=False):
        # DGL-KE takes a batch with as many negatives as there are entities for an evaluation batch, and crashes.
        return original(head, tail, neg_chunk_size, neg_sample_size, is_chunked, -1, has_edge_importance)

    return create


def _partition(sampler):
    original = sampler.SoftRelationPartition

    def partition(edges, n, has_importance=False, **options):
        counts = np.unique(edges[1], return_counts=True)[1]
        if counts.max() > counts.min():
            return original(edges, n, has_importance=has_importance, **options)
        # DGL-KE asserts that relations differ in frequency; where they do not, any partition of the edges is as good.
        parts = sampler.RandomPartition(edges, n, has_importance=has_importance)
        relations = np.unique(edges[1])
        return parts, [relations] * n, True, relations

    return partition
