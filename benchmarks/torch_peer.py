"""The peers of the speed benchmark: the same training step in PyTorch.

They mirror `dense_autoencoder(StudentT(D))` with the standard gradient, K samples per row, Adam,
and gradients clipped by their norm, in three ways:

- plain: eager, from PyTorch's own parts as they come (`StudentT.rsample`, `torch.optim.Adam`);
- eager, tuned: our formula for the draws, the fused Adam;
- compiled, tuned.

For the tuned ones each choice that PyTorch leaves open was measured on two cores with PyTorch 2.13
at D = 11 and D = 30, and the fastest was kept; comments say which lost. The threads of an
operation wait for each other: compare on a machine that does nothing else.
"""

import math
import os
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]
from torch.distributions import Distribution, StudentT  # pyright: ignore[reportMissingImports]
from torch.nn.functional import softplus  # pyright: ignore[reportMissingImports]

__all__ = ["TorchPeer"]

LEARNING_RATE = 1e-3
BETAS = (0.9, 0.999)
EPSILON = 1e-8
CLIP = 5.0


def _dense(n_in: int, n_out: int, n_hidden: int, n_layers: int) -> nn.Sequential:
    widths = [n_in, *[n_hidden] * n_layers, n_out]
    layers: list[nn.Module] = []
    for a, b in zip(widths[:-1], widths[1:], strict=True):
        linear = nn.Linear(a, b)
        nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def _student_t(raw: Tensor, scale_floor: float) -> StudentT:
    loc, scale, df = raw.chunk(3, dim=-1)
    return StudentT(2.1 + softplus(df), loc, scale_floor + softplus(scale), validate_args=False)


def _sample(q: StudentT, n_samples: int) -> Tensor:
    """Bailey's formula: `sqrt(df (u^(-2/df) - 1)) cos(2 pi v)`.

    `q.rsample`, a normal over the root of a gamma variable, works in both variants, but is slower
    by 15 % of a step in eager mode and by 20 % compiled: its gamma variables and their implicit
    gradient are not vectorised.
    """
    u, v = torch.rand(2, n_samples, *q.loc.shape).unbind()
    radius = q.df * torch.expm1(-2 / q.df * torch.log(u.clamp(min=2.0**-25)))
    return q.loc + q.scale * (torch.sqrt(radius) * torch.cos(2 * math.pi * v))


class _Loss(nn.Module):
    """Minus the MIWAE bound, as the mean over a batch of rows with zeros in missing cells."""

    def __init__(
        self,
        n_features: int,
        n_latent: int,
        n_hidden: int,
        n_layers: int,
        n_samples: int,
        *,
        plain: bool,
    ) -> None:
        super().__init__()
        self.plain = plain
        self.encoder = _dense(n_features, 3 * n_latent, n_hidden, n_layers)
        self.decoder = _dense(n_latent, 3 * n_features, n_hidden, n_layers)
        self.n_latent = n_latent
        self.n_samples = n_samples

    def forward(self, x: Tensor, observed: Tensor) -> Tensor:
        q = _student_t(self.encoder(x), 1e-3)
        shape = torch.Size((self.n_samples,))
        z = q.rsample(shape) if self.plain else _sample(q, self.n_samples)  # (K, B, L)
        eta = self.decoder(z.view(-1, self.n_latent)).view(*z.shape[:2], -1)
        log_x = (_student_t(eta, 0.1).log_prob(x) * observed).sum(-1)
        log_z = -0.5 * (z * z).sum(-1) - 0.5 * self.n_latent * math.log(2 * math.pi)
        log_w = log_x + log_z - q.log_prob(z).sum(-1)
        return math.log(self.n_samples) - torch.logsumexp(log_w, dim=0).mean()


class _EagerStep:
    """The usual loop."""

    def __init__(self, loss: nn.Module, *, plain: bool) -> None:
        self.loss = loss
        self.parameters = list(loss.parameters())
        # Of Adam's implementations `fused` is the fastest; the plain loop and `foreach`, which
        # has no kernels of its own on a CPU, take 0.5 to 1 ms more per step. For the norm of the
        # gradient `foreach` is as fast as the loop or a little faster.
        self.optimizer = torch.optim.Adam(
            self.parameters,
            lr=LEARNING_RATE,
            betas=BETAS,
            eps=EPSILON,
            fused=None if plain else True,
        )
        self.foreach = None if plain else True

    def __call__(self, x: Tensor, observed: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = self.loss(x, observed)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, CLIP, foreach=self.foreach)
        self.optimizer.step()
        return loss.detach()


class _CompiledStep:
    """Loss, gradient, clipping and Adam as one graph.

    At D = 11 that is faster by 10 to 20 % than compiling the loss, with its backward pass, and
    leaving the rest to eager mode; at D = 30 by less than the noise. `torch.compile` of the usual
    loop breaks the graph at `backward` and gains nothing over that; nor does a second compiled
    function around `torch.optim.Adam`, which moreover failed when it had to recompile for another
    model in the same process. So the gradient comes from `torch.func`, and Adam is written out.
    The mode "max-autotune" and the C++ wrapper only lengthen the compilation.
    """

    def __init__(self, loss: nn.Module) -> None:
        names, parameters = zip(*loss.named_parameters(), strict=True)
        self.parameters = [p.detach() for p in parameters]
        self.mean = [torch.zeros_like(p) for p in self.parameters]
        self.square = [torch.zeros_like(p) for p in self.parameters]
        self.count = torch.zeros(())

        def evaluate(parameters: Sequence[Tensor], x: Tensor, observed: Tensor) -> Tensor:
            own = dict(zip(names, parameters, strict=True))
            return torch.func.functional_call(loss, own, (x, observed))

        def step(
            parameters: list[Tensor],
            mean: list[Tensor],
            square: list[Tensor],
            count: Tensor,
            x: Tensor,
            observed: Tensor,
        ) -> Tensor:
            gradient, value = torch.func.grad_and_value(evaluate)(parameters, x, observed)
            norm = torch.stack([(g * g).sum() for g in gradient]).sum().sqrt()
            shrink = torch.clamp(CLIP / (norm + 1e-6), max=1.0)
            count += 1
            rate = LEARNING_RATE / (1 - BETAS[0] ** count)
            correction = torch.sqrt(1 - BETAS[1] ** count)
            for p, m, s, g in zip(parameters, mean, square, gradient, strict=True):
                clipped = g * shrink
                m.mul_(BETAS[0]).add_((1 - BETAS[0]) * clipped)
                s.mul_(BETAS[1]).add_((1 - BETAS[1]) * clipped * clipped)
                p.sub_(rate * m / (torch.sqrt(s) / correction + EPSILON))
            return value

        # Static shapes and a cache of its own: instances do not make each other recompile.
        self.step = torch.compile(  # pyright: ignore[reportCallIssue]  # overloads lack the last
            step, fullgraph=True, dynamic=False, isolate_recompiles=True
        )

    def __call__(self, x: Tensor, observed: Tensor) -> Tensor:
        return self.step(self.parameters, self.mean, self.square, self.count, x, observed)


class TorchPeer:
    """A model, its optimiser and its data; `run` takes training steps.

    Sets the number of threads and turns the validation of distributions off, for the process.

    Args:
        x: rows; missing cells may hold anything.
        observed: True where a cell was seen.
        n_latent: dimension of the latent space.
        n_hidden: units per hidden layer.
        n_layers: hidden layers of encoder and of decoder.
        n_samples: K, latent samples per row and step.
        batch_size: rows per step; at most the number of rows is used.
        kind: "plain", "eager" or "compiled" (by `torch.compile`, in the first step).
        seed: of the initial weights, the order of the rows and the latent samples.
    """

    def __init__(
        self,
        x: np.ndarray,
        observed: np.ndarray,
        *,
        n_latent: int = 10,
        n_hidden: int = 128,
        n_layers: int = 3,
        n_samples: int = 20,
        batch_size: int = 64,
        kind: Literal["plain", "eager", "compiled"],
        seed: int = 0,
    ) -> None:
        torch.set_num_threads(os.cpu_count() or 1)
        # `StudentT` hands `validate_args` on to all but the chi-squared distribution inside it.
        Distribution.set_default_validate_args(value=False)
        torch.manual_seed(seed)
        self.x = torch.from_numpy(np.where(observed, x, 0).astype(np.float32))
        self.observed = torch.from_numpy(observed.astype(np.float32))
        self.batch_size = min(batch_size, len(x))
        plain = kind == "plain"
        self.loss = _Loss(x.shape[1], n_latent, n_hidden, n_layers, n_samples, plain=plain)
        self.step = (
            _CompiledStep(self.loss) if kind == "compiled" else _EagerStep(self.loss, plain=plain)
        )
        self.batches: list[Tensor] = []

    def _next_rows(self) -> Tensor:
        """The next rows of this epoch's order; a last batch that is not full is left out."""
        if not self.batches:
            order = torch.randperm(len(self.x))
            self.batches = [b for b in order.split(self.batch_size) if len(b) == self.batch_size]
        return self.batches.pop()

    def run(self, n_steps: int) -> float:
        """Take training steps; return the mean of the losses."""
        total = torch.zeros(())
        for _ in range(n_steps):
            rows = self._next_rows()
            total += self.step(self.x[rows], self.observed[rows])
        return total.item() / n_steps
