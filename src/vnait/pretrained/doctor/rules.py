"""All rules of `vnait doctor`, in the order in which they are tried."""

from vnait.pretrained.doctor import (
    attention,
    biases,
    cache,
    length,
    packing,
    padding,
    positions,
    reading,
    rotation,
    sources,
    tokenizing,
)
from vnait.pretrained.doctor.rule import Rule

MODULES = (
    padding,
    positions,
    packing,
    cache,
    rotation,
    attention,
    biases,
    reading,
    length,
    sources,
    tokenizing,
)
RULES: dict[str, Rule] = {
    value.code: value for module in MODULES for value in vars(module).values() if isinstance(value, Rule)
}
