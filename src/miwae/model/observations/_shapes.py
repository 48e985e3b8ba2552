"""The shapes of arrays that observation models take and return."""

from typing import TypeAlias

from jaxtyping import Array, Bool, Float

Embedded: TypeAlias = tuple[Float[Array, "B E"], Bool[Array, "B E"]]  # inputs, and which were seen
Measured: TypeAlias = tuple[Float[Array, "B S"], Bool[Array, "B S"]]  # statistics, likewise
EtaFirst: TypeAlias = Float[Array, "P K B"]  # parameters with the features first
PerInput: TypeAlias = Float[Array, " E"]
