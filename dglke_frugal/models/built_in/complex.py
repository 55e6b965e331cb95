"""ComplEx (Trouillon et al. 2016): score = Re sum h r conj(t); a row is real parts, then imaginary parts."""
from ..model import Model, require_even


class ComplEx(Model):
    """Halves of a row are real and imaginary parts."""
    name = "ComplEx"
    similarity = "dot"
    halves = (2, 2)
    complex_rows = True
    predicts_relations = True
    in_dglke = True
    reference = "bilinear.ComplEx"

    def check(self, entity: int, relation: int) -> None:
        super().check(entity, relation)
        require_even(self.name, entity)

    def queries(self, corrupt_head, fixed, relation, embedding_range):
        from ...arrays import rotated  # here, because names of models are asked for without numpy

        half = relation.shape[1] // 2
        return rotated(fixed, relation[:, :half], relation[:, half:], conjugate=corrupt_head)
