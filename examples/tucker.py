"""TuckER (Balazevic, Allen and Hospedales 2019) as a custom model: score = W x relation x head x tail.

All relations share the core W, a parameter that is trained besides the rows. In the folder of this file, with families
of 200 people (datasets/families.py), of which it reaches a test MRR of .977:

    dglke_train --model_name "tucker:TuckER(size=32)" --hidden_dim 32 --dataset families --data_path families \
        --format raw_udd_hrt --data_files train.txt valid.txt test.txt --gamma 12 --lr 0.1 -adv -rc 0 --batch_size 256 \
        --neg_sample_size 64 --max_step 1500 --test --seed 1
"""
import torch

from dglke_frugal.errors import InputError
from dglke_frugal.models import TorchModel


class TuckER(TorchModel, torch.nn.Module):
    """size: of rows, which is --hidden_dim."""

    def __init__(self, size=32):
        super().__init__()
        self.size = size
        self.core = torch.nn.Parameter(torch.empty(size, size, size).uniform_(-0.3, 0.3))

    def check(self, entity, relation):
        """See Model.check."""
        if not entity == relation == self.size:
            raise InputError(f"this TuckER has a core of {self.size} numbers a side; give --hidden_dim {self.size}")

    def score(self, head, relation, tail):
        """See TorchModel.score."""
        matrix = torch.einsum("...r,rij->...ij", relation, self.core)  # of the relation, as in RESCAL
        if head.shape[-2:-1] == (1,) or head.dim() == 1:
            return (torch.einsum("...i,...ij->...j", head, matrix) * tail).sum(-1)
        return (head * torch.einsum("...ij,...j->...i", matrix, tail)).sum(-1)
