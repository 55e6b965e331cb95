"""Which presets there are, what flags they have, and what to expect of them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..arguments import path
from ..errors import InputError, shown

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "expected.yaml"


@dataclass(frozen=True)
class Preset:
    """A recipe by name.

    Attributes:
        name: GRAPH/MODEL, for `--preset`.
        file: YAML file of flags, as for `--config`.
        dataset: the --dataset that it is for.
        model_name: the --model_name that it trains.
        max_step: steps of one process.
        lr: its learning rate.
        mrr: test MRR of a measured run (filtered, all entities, ties pessimistic); None where nobody has run it.
        seconds: of training in that run; None if they were not kept.
        hardware: what that run was on.
    """

    name: str
    file: Path
    dataset: str
    model_name: str
    max_step: int
    lr: float
    mrr: Optional[float] = None
    seconds: Optional[float] = None
    hardware: Optional[str] = None

    def to_dict(self) -> Dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "dataset": self.dataset, "model_name": self.model_name, "max_step": self.max_step,
                "MRR": self.mrr, "seconds": self.seconds, "hardware": self.hardware, "file": str(self.file)}


@lru_cache(maxsize=1)
def presets() -> Tuple[Preset, ...]:
    """All of them, by name."""
    import yaml

    expected = yaml.safe_load(EXPECTED.read_text(encoding="utf-8"))
    found = []
    for file in sorted(FOLDER.glob("*/*.yaml")):
        name = f"{file.parent.name}/{file.stem}"
        flags, known = yaml.safe_load(file.read_text(encoding="utf-8")), expected.get(name, {})
        found.append(Preset(name, file, flags["dataset"], flags["model_name"], flags["max_step"], flags["lr"],
                            known.get("MRR"), known.get("seconds"), known.get("hardware")))
    return tuple(found)


def find_preset(name: str) -> Preset:
    """The preset of that name; FB15k-237/ComplEx means fb15k_237/complex. InputError names the nearest others."""
    by_name = {preset.name: preset for preset in presets()}
    wanted = str(path("the preset", name)).strip().lower().replace("-", "_")
    if wanted in by_name:
        return by_name[wanted]
    inside = [each for each in by_name if wanted and wanted in each.split("/")]
    near = inside or difflib.get_close_matches(wanted, by_name, n=3, cutoff=0.5)
    which = f"did you mean {', '.join(near)}?" if near else "dglke_frugal presets lists them"
    raise InputError(f"there is no preset '{shown(name)}'; {which}")


def best_preset(dataset: str, model_name: Optional[str] = None) -> Optional[Preset]:
    """The preset of a data set with the best measured MRR, of that model if it has one; None if there is none."""
    of_set: List[Preset] = [each for each in presets() if each.dataset == dataset]
    of_model = [each for each in of_set if each.model_name == model_name]
    return max(of_model or of_set, key=lambda each: (not each.name.endswith("_dglke"), each.mrr or 0.0), default=None)
