"""ComplEx (Trouillon et al. 2016): score = Re sum h r conj(t); a row is real parts, then imaginary parts."""
from .model import Model, require_even


class ComplEx(Model):
    """Halves of a row are real and imaginary parts."""
    name = "ComplEx"
    similarity = "dot"

    def check(self, entity: int, relation: int) -> None:
        super().check(entity, relation)
        require_even(self.name, entity)
