"""Optuna's own plots of a study, where plotly is installed: history, importance of flags, parallel coordinates."""

from __future__ import annotations

import contextlib
import warnings
from importlib.util import find_spec
from typing import List, Tuple

PLOTS = (("History", "plot_optimization_history"), ("Importance of flags", "plot_param_importances"),
         ("Parallel coordinates", "plot_parallel_coordinate"))


def optuna_plots(study, metric: str) -> List[Tuple[str, str]]:
    """(title, HTML) of an optuna.Study's plots, the first of which brings plotly's script along; plots that its trials
    are too few for are left out. None without plotly."""
    if find_spec("plotly") is None:
        return []
    import optuna

    found: List[Tuple[str, str]] = []
    for title, name in PLOTS:
        # Such as for less than two trials, or where one needs a library that is not installed.
        with contextlib.suppress(ValueError, RuntimeError, ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make = getattr(optuna.visualization, name)
            figure = make(study) if name == "plot_param_importances" else make(study, target_name=metric)
            if figure.data:
                found.append((title, figure.to_html(full_html=False, include_plotlyjs=not found)))
    return found
