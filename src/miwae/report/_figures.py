"""Small pictures as text: SVG that takes its colours from the page, and one PNG."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from miwae._words import counted
from miwae.columns import TIMES, ColumnSchema, density_curve, level_shares, visible_range
from miwae.report._facts import UNRELIABLE, shown_value

WIDTH, HEIGHT = 320, 96
EDGE = 24  # text this close to an end of the axis does not stand across it
FEW = 12  # distinct values that are shown as bars
MOST_BARS = 8
LEFT = 110  # where bars begin
BAR = 12  # from one bar to the next, with room for its share
MOST_TICKS = 40  # imputed values that are shown one by one
BANDS = 220  # lines of the picture of missing cells

OBSERVED, MISSING = (11, 79, 156), (238, 106, 80)


def comparison(known: ColumnSchema, observed: np.ndarray, imputed: np.ndarray) -> str:
    """Observed against imputed cells of a column: densities, or bars for few values."""
    if not len(observed):
        return ""
    numbers = observed.dtype != object and known.storage != "boolean"
    if numbers and len(np.unique(observed)) > FEW:
        return _densities(known, observed.astype(float), imputed.astype(float))
    return _bars(known, observed, imputed)


def _densities(known: ColumnSchema, observed: np.ndarray, imputed: np.ndarray) -> str:
    low, high = visible_range(np.concatenate([observed, imputed]))
    curves = [density_curve(observed, low, high, 80)]
    if len(imputed) > 4:
        curves.append(density_curve(imputed, low, high, 80))
    top = max(curve[1].max() for curve in curves)
    base = HEIGHT - 18
    lines = [_points(curve, low, high, top, base) for curve in curves]
    parts = [f'<path class="area" d="{lines[0]}L{WIDTH},{base}L0,{base}Z"/>']
    parts.append(f'<path class="line o" d="{lines[0]}"/>')
    parts += [f'<path class="line i" d="{line}"/>' for line in lines[1:]]
    if len(imputed) <= MOST_TICKS:
        places = np.clip((imputed - low) / (high - low), 0, 1) * WIDTH
        parts += [f'<path class="tick" d="M{x:.0f},{base}v-9"/>' for x in places]
    parts.append(f'<path class="axis" d="M0,{base}H{WIDTH}"/>')
    for x, text in _ticks(known, low, high):
        place = (x - low) / (high - low) * WIDTH
        anchor = "start" if place < EDGE else "end" if place > WIDTH - EDGE else "middle"
        at = f'x="{place:.0f}" y="{HEIGHT - 4}" text-anchor="{anchor}"'
        parts.append(f"<text {at}>{escape(text)}</text>")
    label = f"density of {len(observed):,} observed cells of {known.name}"
    if len(imputed):
        label += f", whose median is {shown_value(known, float(np.median(observed)))}, and of "
        label += f"{len(imputed):,} imputed ones, whose median is "
        label += shown_value(known, float(np.median(imputed)))
    return svg(parts, label, HEIGHT)


# Seconds between places along an axis of times of day or durations.
DAYS = (86_400 * n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000))
STEPS = (1, 5, 15, 60, 300, 900, 3_600, 10_800, 21_600, 43_200, *DAYS)


def _ticks(known: ColumnSchema, low: float, high: float) -> list[tuple[float, str]]:
    """Places along an axis and what stands there: round numbers; instants at quarters of it."""
    if known.storage == "time":
        quarters = np.linspace(low, high, 5)[1::2].tolist()
        return [(x, shown_value(known, x).split(" ")[0]) for x in quarters]  # days
    least = (high - low) / 5
    if known.storage in TIMES:
        step = next((step for step in STEPS if step >= least), least)
        whole = lambda x: shown_value(known, x).removesuffix(", 0:00:00")  # noqa: E731
        return [(x, whole(x)) for x in _multiples(float(step), low, high)]
    scale = 10.0 ** math.floor(math.log10(least))
    step = next(m * scale for m in (1, 2, 5, 10) if m * scale >= least)
    decimals = max(-math.floor(math.log10(step) + 1e-9), 0)
    plain = decimals <= 4 and max(-low, high) < 1e7
    text = lambda x: f"{x:.{decimals}f}" if plain else f"{x:.3g}"  # noqa: E731
    return [(x, text(x)) for x in _multiples(float(step), low, high)]


def _multiples(step: float, low: float, high: float) -> list[float]:
    return (np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step).tolist()


def _points(curve: np.ndarray, low: float, high: float, top: float, base: int) -> str:
    x = (curve[0] - low) / (high - low) * WIDTH
    y = base - curve[1] / top * (base - 4)
    return "M" + "L".join(f"{a:.0f},{b:.0f}" for a, b in zip(x, y, strict=True))


def _bars(known: ColumnSchema, observed: np.ndarray, imputed: np.ndarray) -> str:
    shares = level_shares(observed, [imputed] if len(imputed) else [])
    order = np.sort(np.argsort(-shares.observed, kind="stable")[:MOST_BARS])
    names = {i: _cut(shown_value(known, shares.levels[i])) for i in order}
    both = np.concatenate([shares.observed[None], shares.imputed])
    step, parts = BAR * len(both) + 6, []
    for place, i in enumerate(order):
        parts += _level(names[i], both[:, i], both.max(), place * step)
    height = step * len(order)
    if left_out := len(shares.levels) - len(order):
        height += 14
        more = counted(left_out, "rarer value")
        parts.append(f'<text x="{LEFT}" y="{height - 4}">and {more}</text>')
    label = f"shares of the values of {known.name}: "
    label += ", ".join(
        f"{names[i]} {shares.observed[i]:.0%} of observed"
        + "".join(f" and {copy[i]:.0%} of imputed cells" for copy in shares.imputed)
        for i in order
    )
    return svg(parts, label, height)


def _level(name: str, shares: np.ndarray, longest: float, y: int) -> list[str]:
    """A value, and its bars: among observed cells, and among imputed ones if there are any."""
    middle = y + BAR * len(shares) // 2 + 5
    parts = [f'<text x="{LEFT - 6}" y="{middle}" text-anchor="end">{escape(name)}</text>']
    for kind, share in zip("oi", shares, strict=False):
        width = share / longest * (WIDTH - LEFT - 40)
        size = f'width="{width:.1f}" height="{BAR - 2}"'
        parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y + 1}" {size}/>')
        at = f'x="{LEFT + width + 4:.0f}" y="{y + BAR - 1}"'
        parts.append(f'<text class="small" {at}>{share:.0%}</text>')
        y += BAR
    return parts


def training(steps: Sequence[int], series: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """Lines over the steps of the training, each on its own scale."""
    parts, base, x = [], HEIGHT + 24, np.asarray(steps, float)
    for kind, given in series:
        y = np.array([np.nan if value is None else value for value in given], float)
        seen = np.isfinite(y)
        if seen.sum() < 2 or x.max() == 0:
            continue
        low, high = y[seen].min(), y[seen].max()
        heights = base - (y[seen] - low) / max(high - low, 1e-12) * (base - 8)
        places = x[seen] / x.max() * WIDTH
        line = "L".join(f"{a:.0f},{b:.0f}" for a, b in zip(places, heights, strict=True))
        parts.append(f'<path class="line {kind}" d="M{line}"/>')
    if not parts:
        return ""
    parts.append(f'<path class="axis" d="M0,{base}H{WIDTH}"/>')
    parts.append(f'<text x="0" y="{base + 14}">0</text>')
    parts.append(f'<text x="{WIDTH}" y="{base + 14}" text-anchor="end">{steps[-1]:,} steps</text>')
    label = "bound of the likelihood and score of held-out cells over the steps of training"
    return svg(parts, label, base + 18)


def histogram_of_k(pareto_k: np.ndarray) -> str:
    """Pareto's k of the sampled rows, with the limit of what can be trusted."""
    k = np.clip(pareto_k[np.isfinite(pareto_k)], -0.5, 1.5)
    if not len(k):
        return ""
    counts, edges = np.histogram(k, bins=40, range=(-0.5, 1.5))
    base, step = HEIGHT + 24, WIDTH / 40
    parts = []
    for i, count in enumerate(counts):
        if count:
            height = max(count / counts.max() * (base - 8), 1)
            kind = "i" if edges[i] >= UNRELIABLE - 1e-9 else "o"
            where = f'x="{i * step:.0f}" y="{base - height:.0f}" width="{step - 1:.0f}"'
            parts.append(f'<rect class="{kind}" {where} height="{height:.0f}"/>')
    limit = (UNRELIABLE + 0.5) / 2 * WIDTH
    parts.append(f'<path class="limit" d="M{limit:.0f},0V{base}"/>')
    parts.append(f'<path class="axis" d="M0,{base}H{WIDTH}"/>')
    for value in (-0.5, 0.0, 0.7, 1.5):
        place = (value + 0.5) / 2 * WIDTH
        anchor = {-0.5: "start", 1.5: "end"}.get(value, "middle")
        parts.append(
            f'<text x="{place:.0f}" y="{base + 14}" text-anchor="{anchor}">{value}</text>'
        )
    n_bad = int(np.count_nonzero(k > UNRELIABLE))
    label = f"histogram of Pareto's k of {len(k):,} rows, {n_bad:,} of them above 0.7"
    return svg(parts, label, base + 18)


def svg(parts: Sequence[str], label: str, height: int) -> str:
    """An inline picture with its alternative text."""
    view = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}"'
    return f"<svg {view}>{''.join(parts)}</svg>"


def matrix(missing: np.ndarray) -> str:
    """All cells as an address of data: a PNG with a pixel per column and band of rows."""
    bands = np.array_split(missing, min(len(missing), BANDS))
    share = np.stack([band.mean(axis=0) for band in bands])[:, :, None]
    pixels = (1 - share) * np.array(OBSERVED) + share * np.array(MISSING)
    return (
        "data:image/png;base64," + base64.b64encode(png(pixels.round().astype(np.uint8))).decode()
    )


def png(pixels: np.ndarray) -> bytes:
    """An image of 8-bit colours, (rows, columns, 3), in the simplest form of the format."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    checked = name + data
    return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 16 else f"{text[:15]}…"
