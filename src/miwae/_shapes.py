"""The shapes of arrays that many functions take, each with its meaning.

B rows (N in NumPy) of D features have E inputs of networks and S statistics; each row has K latent
samples of L dimensions, decoded to P parameters.
"""

from typing import TypeAlias

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

Floats: TypeAlias = Float[Array, "..."]

Rows: TypeAlias = Float[Array, "B D"]
Seen: TypeAlias = Bool[Array, "B D"]  # True where a cell was observed
Inputs: TypeAlias = Float[Array, "B E"]
InputsSeen: TypeAlias = Bool[Array, "B E"]
Statistics: TypeAlias = Float[Array, "B S"]
PerRow: TypeAlias = Float[Array, " B"]

Kappa: TypeAlias = Float[Array, "B Q"]  # what an encoder returns
PerLatent: TypeAlias = Float[Array, "B L"]
Matrices: TypeAlias = Float[Array, "B L L"]

Latents: TypeAlias = Float[Array, "K B L"]
Eta: TypeAlias = Float[Array, "K B P"]  # what a decoder returns
Drawn: TypeAlias = Float[Array, "K B D"]
Means: TypeAlias = Float[Array, "K B S"]
PerSample: TypeAlias = Float[Array, "K B"]  # log-densities, log-weights

Count: TypeAlias = Int[Array, ""]
OneKey: TypeAlias = Key[Array, ""]
Keys: TypeAlias = Key[Array, "..."]  # one for the batch, or one for each row
RowKeys: TypeAlias = Key[Array, " B"]

Table: TypeAlias = Float[np.ndarray, "N D"]
TableSeen: TypeAlias = Bool[np.ndarray, "N D"]
KeyWords: TypeAlias = UInt32[np.ndarray, "N 2"]
