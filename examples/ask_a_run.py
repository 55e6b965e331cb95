"""Ask a trained run, cell by cell (an editor that knows `# %%` shows them as a notebook).

python examples/ask_a_run.py ckpts/TransE_l2_families_0
"""

# %% Load a run. Its tables stay on disk until they are used.
import sys

import dglke_frugal

run = dglke_frugal.load(sys.argv[1])
print(f"{run.model.name}: {len(run.model.entity):,} entities, {len(run.model.relation):,} relations")

# %% Which tails complete (head, relation, ?) best? Names or ids, as you like.
head, relation = run.entity_names[0], run.relation_names[0]
for answer in run.tails(head, relation, k=5):
    print(f"{answer.score:8.3f}  {head} -- {relation} -> {answer.name}")

# %% Which relation holds between two entities?
for answer in run.relations(head, run.entity_names[1], k=3):
    print(f"{answer.score:8.3f}  {answer.name}")

# %% Which entities have similar embeddings?
for answer in run.nearest(head, k=5, measure="cosine"):
    print(f"{answer.score:8.3f}  {answer.name}")

# %% How would given triples rank against all entities? (unfiltered; give KnownTriples to leave known ones out)
triples = ([0, 1, 2], [0, 0, 0], [3, 4, 5])
evaluation = run.rank(triples)
print("tail ranks", evaluation.ranks("tail"), "MRR of both directions", round(evaluation.metrics().mrr, 4))
