"""RotatE (Sun et al. 2019): score = gamma - sum |h o r - t|, r a rotation by a phase per complex element."""
import math

from ...errors import InputError
from ..model import Model

_LARGEST_PHASE = 2.0**20  # radians, between which and the next float32 is a sixteenth


class RotatE(Model):
    """A relation turns each complex element of the head by a phase."""
    name = "RotatE"
    similarity = "modulus"
    halves = (2, 1)
    doubled = (True, False)
    phases = True
    in_dglke = True
    reference = "rotate.RotatE"

    def check(self, entity: int, relation: int) -> None:
        if entity != 2 * relation:
            raise InputError(f"RotatE needs entity rows twice as long as relation rows, not {entity} and {relation}; "
                             "give -de (--double_ent) and not -dr (--double_rel)")

    def queries(self, corrupt_head, fixed, relation, embedding_range):
        import numpy as np  # here, because names of models are asked for without it

        from ...arrays import rotated
        from ...divergence import Diverged, check_rows

        phase = relation / np.float32(embedding_range / math.pi)
        largest = check_rows(phase, "the relations' angles")
        if largest > _LARGEST_PHASE:
            raise Diverged(f"a relation turns by {largest:.6g} radians, which float32 cannot tell from other angles")
        return rotated(fixed, np.cos(phase), np.sin(phase), conjugate=corrupt_head)
