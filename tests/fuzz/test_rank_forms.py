"""Random triples in random forms, some of them known: ranks and scores by the plain formulas."""

import numpy as np
import pytest
import torch
from evaluation.random_models import BY_RULE, random_model
from evaluation.ranking_oracle import better_and_equal

from dglke_frugal.errors import InputError
from dglke_frugal.evaluation import SIDES, KnownTriples, evaluate

FORMS = (np.array, np.asfortranarray, list, iter, lambda rows: torch.tensor(np.array(rows)),
         lambda rows: list(map(list, rows)), lambda rows: tuple(np.array(rows).T),
         lambda rows: tuple(map(list, zip(*rows))), lambda rows: tuple(zip(*rows)),
         lambda rows: dict(zip("rth", ([row[place] for row in rows] for place in (1, 2, 0)))))


@pytest.mark.fuzz(seeds=10)
def test_ranks_in_every_form(fuzz_seed):
    rng = np.random.default_rng(fuzz_seed)
    name, rule = BY_RULE[rng.integers(len(BY_RULE))]
    model = random_model(name, entities=int(rng.integers(2, 40)), relations=int(rng.integers(1, 4)), seed=fuzz_seed,
                         rule=rule)

    def draw(count):
        ids = (rng.integers(0, rows, count) for rows in (len(model.entity), len(model.relation), len(model.entity)))
        return [tuple(map(int, row)) for row in zip(*ids)]

    rows = draw(rng.integers(1, 7))
    known = [row for row in draw(60) + rows if rng.random() < 0.5]
    parts = [np.array(part).reshape(-1, 3) for part in (known[::2], known[1::2])]
    for form in FORMS:
        try:
            found = evaluate(model, form(rows), KnownTriples(parts))
        except InputError as error:  # three triples alone may be columns as well
            assert len(rows) == 3 and "rows or columns" in str(error)
            continue
        assert list(zip(*(column.tolist() for column in found.triples))) == rows
        for side in SIDES:
            better, equal = better_and_equal(model, list(zip(*rows)), side, set(known), tolerance=1e-9)
            np.testing.assert_array_equal(found.compared[side].better, better)
            np.testing.assert_array_equal(found.compared[side].equal, equal)
