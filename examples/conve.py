"""ConvE (Dettmers et al. 2018) as a custom model: score = f(conv([head; relation])) . tail.

Rows are pictures of `height` lines. In the folder of this file, with families of 200 people (datasets/families.py), of
which so few steps reach a test MRR of .173:

    dglke_train --model_name "conve:ConvE(size=64)" --hidden_dim 64 --dataset families --data_path families \
        --format raw_udd_hrt --data_files train.txt valid.txt test.txt --gamma 12 --lr 0.03 -adv -rc 0 \
        --batch_size 128 --neg_sample_size 32 --max_step 500 --test --seed 1
"""
import torch

from dglke_frugal.errors import InputError
from dglke_frugal.models import TorchModel


class ConvE(TorchModel, torch.nn.Module):
    """size: of rows, which is --hidden_dim; height: lines of a row's picture; channels: of the convolution."""

    def __init__(self, size=64, height=8, channels=8):
        super().__init__()
        self.size, self.height = size, height
        self.convolution = torch.nn.Conv2d(1, channels, 3)
        self.projection = torch.nn.Linear(channels * (2 * height - 2) * (size // height - 2), size)

    def check(self, entity, relation):
        """See Model.check."""
        if not entity == relation == self.size or self.size % self.height:
            raise InputError(f"this ConvE has rows of {self.size} numbers in {self.height} lines; give --hidden_dim "
                             f"{self.size}, a multiple of {self.height}")

    def score(self, head, relation, tail):
        """See TorchModel.score. Every head that is scored is convolved with its relation."""
        head, relation = torch.broadcast_tensors(head, relation)
        pictures = torch.cat([each.unflatten(-1, (self.height, -1)) for each in (head, relation)], -2)
        found = self.convolution(pictures.reshape(-1, 1, *pictures.shape[-2:])).relu().flatten(1)
        query = self.projection(found).relu().reshape(head.shape)
        return (query * tail).sum(-1)
