"""A step against all entities in float64 torch: one matrix of scores, autograd, and the optimizers as they are written.

Dropout's numbers come from Philox4x32-10, written once more from its paper (Salmon et al., SC 2011).
"""
import numpy as np
import torch
from models.reference import SCORES

PARTS = {"entities": 0, "fixed": 1, "relation": 2, "relations": 3, "answer": 4}
DROPOUT = 5  # the use of random numbers, in the upper half of the counter's upper word


def philox(key, low, high):
    """Words (n, 4) uint32 of counters low (n,) and one `high`, for a 64-bit key."""
    low = np.asarray(low, np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    c = [low & mask, low >> np.uint64(32), np.full_like(low, high & 0xFFFFFFFF), np.full_like(low, high >> 32)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [q >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]), q & mask,
             p >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]), p & mask]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, 1).astype(np.uint32)


def kept(rate, seed, step, part, rows, dim):
    """(rows, dim) float64: 0 where dropped, else 1 / (1 - rate)."""
    if not rate:
        return torch.ones(rows, dim, dtype=torch.float64)
    blocks = -(-dim // 4)
    words = philox((step + 1) << 32 | seed, np.arange(rows * blocks), DROPOUT << 32 | PARTS[part])
    keep = words.reshape(rows, 4 * blocks)[:, :dim] >= rate * 2.0**32
    return torch.from_numpy(keep / (1 - rate))


def penalty(config, rows, times, triples):
    """rows (n, dim), times (n,)."""
    coefficient = config.step.loss.regularization_coefficient
    if config.regularizer == "n3":
        half = rows.shape[1] // 2
        return coefficient / (3 * triples) * (times[:, None] * (rows[:, :half] ** 2 + rows[:, half:] ** 2) ** 1.5).sum()
    norm = config.step.loss.regularization_norm
    return coefficient / (norm * triples) * (times[:, None] * rows.abs() ** norm).sum()


class Oracle:
    """Tables in float64, and what one step makes of them. relation_loss: of the last step, without its weight."""

    def __init__(self, config, entities, relations):
        self.config = config
        self.tables = [torch.tensor(np.array(table), dtype=torch.float64) for table in (entities, relations)]
        self.state = [[torch.zeros_like(table), torch.zeros_like(table), torch.zeros(len(table), dtype=torch.float64)]
                      for table in self.tables]

    def step(self, batch, number, labels=None):
        """Returns the loss. labels: (B, E), or the batch's own answers alone."""
        config = self.config
        entities, relations = (table.clone().requires_grad_() for table in self.tables)
        ids = {name: torch.tensor(np.array(getattr(batch, name))) for name in ("head", "relation", "tail")}
        fixed_name, answer_name = ("tail", "head") if batch.corrupt_head else ("head", "tail")
        drop = (config.seed, number)
        fixed = entities[ids[fixed_name]] * kept(config.entity_dropout, *drop, "fixed", len(batch), entities.shape[1])
        relation = relations[ids["relation"]] * kept(config.relation_dropout, *drop, "relation", len(batch),
                                                     relations.shape[1])
        every = entities * kept(config.entity_dropout, *drop, "entities", *entities.shape)
        score = SCORES[config.step.model]
        sides = {fixed_name: fixed[:, None], answer_name: every[None]}
        scores = score(sides["head"], relation[:, None], sides["tail"], None, None)
        wanted = torch.nn.functional.one_hot(ids[answer_name], len(entities)).double() if labels is None else labels
        weight = torch.tensor(np.array(batch.weight)).double() if len(batch.weight) else torch.ones(len(batch)).double()
        if config.binary:
            of_query = torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none").mean(-1)
        else:
            of_query = -(wanted * scores.log_softmax(-1)).sum(-1)
        loss = (weight * of_query).mean()
        if config.relation_prediction:
            answer = entities[ids[answer_name]] * kept(config.entity_dropout, *drop, "answer", len(batch),
                                                       entities.shape[1])
            sides = {fixed_name: fixed[:, None], answer_name: answer[:, None]}
            each = relations * kept(config.relation_dropout, *drop, "relations", *relations.shape)
            of_relations = torch.cat([score(sides["head"], row.expand(len(batch), 1, -1), sides["tail"], None, None)
                                      for row in each], 1)
            unlikely = -of_relations.log_softmax(-1).gather(1, ids["relation"][:, None])[:, 0]
            self.relation_loss = (weight * unlikely).mean().item()
            loss = loss + config.relation_prediction * (weight * unlikely).mean()
        if config.step.loss.regularization_coefficient:
            occurring = [fixed_name] if labels is not None else ["head", "tail"]
            times = sum(torch.bincount(ids[name], minlength=len(entities)) for name in occurring).double()
            loss = loss + penalty(config, entities, times, len(batch))
            loss = loss + penalty(config, relations, torch.bincount(ids["relation"], minlength=len(relations)).double(),
                                  len(batch))
        loss.backward()
        for which, gradient in enumerate((entities.grad, relations.grad)):
            self._update(which, gradient, number)
        return loss.item()

    def _update(self, which, g, number):
        table, (first, second, by_row) = self.tables[which], self.state[which]
        rate = self.config.step.learning_rate
        if self.config.optimizer == "row_adagrad":
            by_row += (g * g).mean(1)
            table -= rate * g / (by_row.sqrt()[:, None] + 1e-10)
        elif self.config.optimizer == "adagrad":
            first += g * g
            table -= rate * g / (first.sqrt() + 1e-10)
        else:
            first.mul_(0.9).add_(0.1 * g)
            second.mul_(0.999).add_(0.001 * g * g)
            table -= rate / (1 - 0.9 ** (number + 1)) * first / ((second / (1 - 0.999 ** (number + 1))).sqrt() + 1e-8)
