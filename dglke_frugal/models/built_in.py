"""The models of the package, one a line."""
from .transe import TransEL1
from .transe import TransEL2
from .distmult import DistMult
from .complex import ComplEx
from .rotate import RotatE
from .simple import SimplE
from .rescal import RESCAL
from .transr import TransR
