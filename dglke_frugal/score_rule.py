"""By which formula corrupted triples are scored: the model's own, or another one for tails, as DGL-KE has it.

DGL-KE scores a corrupted tail b of RESCAL as b^T M h where the triple has h^T M t, and of TransR as
gamma - |h M - r - b M| where the triple has gamma - |h M + r - t M|. A model that is trained so learns to tell the two
formulas apart, and its ranks say how well it does.
"""

from __future__ import annotations

from typing import Optional

from .errors import InputError
from .models import built_in_model

SCORE_RULES = ("textbook", "dglke")


def has_two_formulas(model_name: str) -> bool:
    """Whether the rule makes a difference."""
    model = built_in_model(model_name)
    return model is not None and model.two_formulas


def compares_two_formulas(model_name: str, score_rule: str) -> bool:
    """Whether corrupted tails are scored by another formula than true triples, in training and in ranking."""
    return score_rule == "dglke" and has_two_formulas(model_name)


def log_if_two_formulas(model_name: str, score_rule: str) -> None:
    """Print one line if ranks will not be comparable with others."""
    if compares_two_formulas(model_name, score_rule):
        print(two_formulas_line(model_name), flush=True)


def two_formulas_line(model_name: str, remedy: str = "--score_rule textbook") -> str:
    """The message where compares_two_formulas."""
    return (
        f"score rule dglke: {model_name}'s true triples and corrupted tails have two different formulas, as in DGL-KE; "
        f"the ranks compare the two and are not comparable with others ({remedy} has one)")


def score_rule_of_run(model_name: str, asked: Optional[str], dglke_loop: bool) -> str:
    """The rule of a new run: that asked for, or DGL-KE's in DGL-KE's own loop, or the textbook's.

    Models with one formula have the textbook's whatever is asked for. Raises InputError for the textbook's in DGL-KE's
    own loop, which has it not.
    """
    if not has_two_formulas(model_name):
        return "textbook"
    if dglke_loop and asked == "textbook":
        raise InputError(
            f"--score_rule textbook is not what DGL-KE's own loop does with {model_name}; leave it out, or train with "
            "--backend frugal --trainer native")
    return asked or ("dglke" if dglke_loop else "textbook")


def score_rule_of_dglke_run(model_name: str) -> str:
    """That of a run of DGL-KE, which does not say its own."""
    return "dglke" if has_two_formulas(model_name) else "textbook"
