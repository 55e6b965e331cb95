"""RotatE (Sun et al. 2019): score = gamma - sum |h o r - t|, r a rotation by a phase per complex element."""
from ..errors import InputError
from .model import Model


class RotatE(Model):
    """A relation turns each complex element of the head by a phase."""
    name = "RotatE"
    similarity = "modulus"

    def check(self, entity: int, relation: int) -> None:
        if entity != 2 * relation:
            raise InputError(
                f"RotatE needs entity rows twice as long as relation rows, not {entity} and {relation}; "
                "give --double_ent and not --double_rel"
            )
