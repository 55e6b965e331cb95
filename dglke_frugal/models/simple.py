"""SimplE (Kazemi and Poole 2018): half the sum of a forward and an inverse product, clamped to [-20, 20]."""
from .model import Model, require_even


class SimplE(Model):
    """Halves of a row are an entity as head and as tail, a relation and its inverse."""
    name = "SimplE"
    similarity = "dot"

    def check(self, entity: int, relation: int) -> None:
        super().check(entity, relation)
        require_even(self.name, entity)
