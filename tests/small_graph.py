"""A graph of 12 entities and 3 relations, with maps of its own."""


def write_graph(folder, weights=False):
    """Make its folder. weights: whether each triple has one."""
    folder.mkdir()
    (folder / "entities.tsv").write_text("".join(f"{i}\te{i}\n" for i in range(12)))
    (folder / "relations.tsv").write_text("".join(f"{i}\tr{i}\n" for i in range(3)))
    for number, split in enumerate(("train", "valid", "test")):
        lines = [f"{(i + number) % 12}\t{i % 3}\t{(5 * i + 1) % 12}" + f"\t{1 + i % 4}" * weights for i in range(20)]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return folder
