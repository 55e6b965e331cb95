"""CP, the canonical polyadic decomposition (Hitchcock 1927), as a custom model: score = sum h r t'.

An entity has one vector as a head and another one as a tail, so its row is twice as long as a relation's. In the folder
of this file, with families of 200 people (datasets/families.py), of which it reaches a test MRR of .786:

    dglke_train --model_name cp:CP -de --hidden_dim 64 --dataset families --data_path families --format raw_udd_hrt \
        --data_files train.txt valid.txt test.txt --gamma 12 --lr 0.1 -adv -rc 0 --batch_size 256 --neg_sample_size 64 \
        --max_step 1500 --test --seed 1
"""
from dglke_frugal.errors import InputError
from dglke_frugal.models import TorchModel


class CP(TorchModel):
    """Rows of entities are two vectors, of the head and of the tail."""

    def check(self, entity, relation):
        """See Model.check."""
        if entity != 2 * relation:
            raise InputError("CP needs entity rows twice as long as relation rows; give -de (--double_ent)")

    def score(self, head, relation, tail):
        """See TorchModel.score."""
        return (head.chunk(2, -1)[0] * relation * tail.chunk(2, -1)[1]).sum(-1)
