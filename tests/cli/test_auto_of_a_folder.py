"""--preset auto on a folder whose files are recognised: its flags go by the graph that the run then has."""
from dglke_frugal.cli.train import configuration


def test_a_folder_with_a_train_file_needs_no_format(tmp_path):
    lines = [f"e{i % 30}\tr{i % 3}\te{(7 * i + 1) % 30}\n" for i in range(200)]
    (tmp_path / "train.tsv").write_text("".join(lines[:180]))
    (tmp_path / "valid.tsv").write_text("".join(lines[180:]))
    _, config = configuration(["--data_path", str(tmp_path), "--preset", "auto/DistMult"])
    assert config.model.model_name == "DistMult" and config.graph.format == "raw_udd_hrt"
    assert config.evaluation.valid and config.run.early_stop_patience > 0
