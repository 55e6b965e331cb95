"""SimplE (Kazemi and Poole 2018): half the sum of a forward and an inverse product, clamped to [-20, 20]."""
from ..model import Model, require_even


class SimplE(Model):
    """Halves of a row are an entity as head and as tail, a relation and its inverse."""
    name = "SimplE"
    similarity = "dot"
    bound = 20.0
    halves = (2, 2)
    doubled = (True, True)
    predicts_relations = True
    reference = "bilinear.SimplE"

    def check(self, entity: int, relation: int) -> None:
        super().check(entity, relation)
        require_even(self.name, entity)

    def queries(self, corrupt_head, fixed, relation, embedding_range):
        import numpy as np  # here, because names of models are asked for without it

        forward, inverse = np.split(relation, 2, axis=1)
        as_head, as_tail = np.split(fixed, 2, axis=1)
        first, second = (forward, inverse) if corrupt_head else (inverse, forward)
        return np.float32(0.5) * np.concatenate([as_tail * first, as_head * second], axis=1)
