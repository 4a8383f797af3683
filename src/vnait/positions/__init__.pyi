from .building import build as build
from .conformance_suite import conformance as conformance
from .coordinates import *
from .encodings import *
from .injection import Injection as Injection
from .injection import LogLength as LogLength
from .injection import PairBias as PairBias
from .injection import ScoreMod as ScoreMod
from .inputs import *
from .method import Method as Method
from .methods import METHODS as METHODS
from .recipe import Recipe as Recipe
from .recipe import Size as Size
