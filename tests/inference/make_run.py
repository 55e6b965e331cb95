"""A small trained-looking run and its data set on disk."""

import json

import numpy as np


def write_run(folder, model, dataset="toy", graph=None, **config):
    """Write a run's files as DGL-KE 0.1.2 does; `graph`: {"train": triples, ...} also written as udd files."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{dataset}_{model.name}"
    np.save(folder / f"{stem}_entity.npy", model.entity)
    np.save(folder / f"{stem}_relation.npy", model.relation)
    if model.projection is not None:
        np.save(folder / f"{stem}projection.npy", model.projection)
    double_ent = model.entity.shape[1] == 2 * model.hidden_dim
    (folder / "config.json").write_text(
        json.dumps(
            {"dataset": dataset, "model": model.name, "emb_size": model.hidden_dim, "gamma": model.gamma,
             "double_ent": double_ent, "double_rel": False, "emap_file": "entities.tsv", "rmap_file": "relations.tsv",
             **config}))
    (folder / "entities.tsv").write_text("".join(f"{i}\tentity {i}\n" for i in range(len(model.entity))))
    (folder / "relations.tsv").write_text("".join(f"{i}\trelation {i}\n" for i in range(len(model.relation))))
    for split, triples in (graph or {}).items():
        (folder / f"{split}.txt").write_text("".join("\t".join(map(str, triple)) + "\n" for triple in zip(*triples)))
    return folder


def udd_flags(folder):
    """Flags of dglke_eval that read what write_run wrote."""
    return ["--model_path", str(folder), "--dataset", "toy", "--data_path", str(folder), "--format", "udd_hrt",
            "--data_files", "entities.tsv", "relations.tsv", "train.txt", "valid.txt", "test.txt"]
