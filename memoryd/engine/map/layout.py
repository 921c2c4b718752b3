"""Places for vectors on a plane, so that what is alike lies together.

A projection onto two axes (PCA) keeps the largest differences and lays everything else on one heap.
Methods that keep neighbours together (t-SNE, UMAP) move every point many times, which takes minutes
for a hundred thousand, and they have no place for a point that comes later. So only some memories,
the landmarks, are laid out by t-SNE, all pairs of them exactly. Every other point gets the weighted
mean of its nearest landmarks, without those that the layout tore away from the nearest one: a mean
of places far apart means nothing. A linear map, fitted to the landmarks around the nearest one,
then moves it a little in the direction in which it differs. That is a few multiplications of
matrices for all points, and one that comes later gets its place without moving another.

The same vectors in the same order give the same layout. Runs on a thread: nearly all of the time is
spent in numpy, which releases the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Report = Callable[[float], None]  # called with the share that is done, 0..1

LANDMARKS = 1500
SAMPLE = 8192  # vectors from which the axes are computed
AXES = 48  # main directions that are kept; the others hold little but noise
PERPLEXITY, BISECTIONS = 15, 30  # neighbours that a landmark is kept with, about
NEIGHBOURS = 12  # landmarks around one, to fit its map
PROPOSERS = 12  # landmarks that are looked at for the place of a point
SHARPNESS = 8  # power of the nearness of a landmark: vectors of many dimensions are all far apart
SPREAD = 0.2  # how far from its landmarks a point is moved: less than it differs, or they mix
CHUNK = 1024  # points that are placed at a time: bounds RAM
ITERATIONS, EXAGGERATED, EXAGGERATION = 260, 90, 8.0
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Layout:
    """The landmarks with their places, and how others are placed from them."""

    mean: Floats
    axes: Floats  # dimension x AXES
    landmarks: Floats  # on the axes
    places: Floats  # of the landmarks, on the plane
    reach: Floats  # by landmark, how far its neighbours on the plane are
    maps: Floats  # by landmark, AXES x 2: from a difference on the axes to one on the plane

    def place(self, vectors: Floats) -> Floats:
        """A place for each vector."""
        found = np.empty((len(vectors), 2), dtype=np.float32)
        for start in range(0, len(vectors), CHUNK):
            part = vectors[start : start + CHUNK]
            found[start : start + CHUNK] = self._place(_on_axes(part, self.mean, self.axes))
        return found

    def _place(self, points: Floats) -> Floats:
        squares = _squares(points, self.landmarks)
        count = min(PROPOSERS, len(self.landmarks))
        nearest = np.argpartition(squares, count - 1, axis=1)[:, :count]
        distances = np.take_along_axis(squares, nearest, axis=1)
        order = np.argsort(distances, axis=1, kind="stable")
        nearest = np.take_along_axis(nearest, order, axis=1)
        distances = np.take_along_axis(distances, order, axis=1) + TINY
        first, places = nearest[:, 0], self.places[nearest]
        weights = (distances[:, :1] / distances) ** SHARPNESS
        apart = np.linalg.norm(places - places[:, :1], axis=2)
        weights *= apart <= self.reach[first][:, None]
        weights /= weights.sum(axis=1, keepdims=True)
        offset = np.einsum("nk,nkd->nd", points - self.landmarks[first], self.maps[first])
        placed: Floats = np.einsum("np,npd->nd", weights, places) + offset
        return placed


def lay_out(sample: Floats, report: Report = lambda share: None) -> Layout:
    """A layout for vectors of which these are a sample, at least one."""
    mean, axes = _main_axes(sample[:SAMPLE])
    landmarks = _on_axes(sample[:LANDMARKS], mean, axes)
    squares = _squares(landmarks, landmarks)
    np.fill_diagonal(squares, 0.0)
    places = _neighbour_embedding(squares, landmarks[:, :2], report)
    return Layout(mean, axes, landmarks, places, _reach(places), _maps(landmarks, places, squares))


def _main_axes(sample: Floats) -> tuple[Floats, Floats]:
    """The mean, and the directions in which vectors differ most, the first the most."""
    mean: Floats = sample.mean(axis=0)
    centred = sample - mean
    _, directions = np.linalg.eigh(centred.T @ centred)
    axes = directions[:, ::-1][:, :AXES]
    # A direction has two signs; always take the same, so that the map is never mirrored.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    turned: Floats = (axes * signs).astype(np.float32)
    return mean, turned


def _on_axes(vectors: Floats, mean: Floats, axes: Floats) -> Floats:
    found: Floats = np.matmul(vectors - mean, axes, dtype=np.float32)
    return found


def _squares(points: Floats, others: Floats) -> Floats:
    """Squares of the distances of all points to all others."""
    found: Floats = points @ others.T
    found *= -2.0
    found += (points * points).sum(axis=1)[:, None]
    found += (others * others).sum(axis=1)
    return np.maximum(found, 0.0, out=found)


def _neighbour_embedding(squares: Floats, first: Floats, report: Report) -> Floats:
    """t-SNE of all pairs, from the two main axes as the first places."""
    count = len(squares)
    scale = float(first[:, 0].std()) if count > 1 else 0.0
    if count < 4 or scale < TINY:  # too few, or all the same
        return np.zeros((count, 2), dtype=np.float32) + _two(first)
    likeness = _likeness(squares)
    places = np.array(_two(first) / scale * 1e-2, dtype=np.float32)
    speed = np.zeros_like(places)
    gains = np.ones_like(places)
    rate = max(count / EXAGGERATION, 10.0)
    for number in range(ITERATIONS):
        is_early = number < EXAGGERATED
        slope = _slope(likeness, places, EXAGGERATION if is_early else 1.0)
        opposed = (slope > 0) == (speed > 0)
        gains = np.clip(np.where(opposed, gains * 0.8, gains + 0.2), 0.01, None)
        speed = (0.5 if is_early else 0.8) * speed - rate * gains * slope
        places += speed
        places -= places.mean(axis=0)
        report((number + 1) / ITERATIONS)
    return places


def _likeness(squares: Floats) -> Floats:
    """How much each pair belongs together; the sum of all pairs is 1. A point belongs to its
    nearest ones only, and every point to equally many: `PERPLEXITY`, in effect."""
    count = len(squares)
    near = min(3 * PERPLEXITY, count - 1)
    around = np.argpartition(squares, near, axis=1)[:, : near + 1]
    distances = np.take_along_axis(squares, around, axis=1)
    distances = np.where(around == np.arange(count)[:, None], np.inf, distances)
    shares = _shares(distances, min(PERPLEXITY, near / 2))
    found = np.zeros_like(squares)
    np.put_along_axis(found, around, shares, axis=1)
    found += found.T.copy()
    found /= found.sum()
    return found


def _shares(squares: Floats, perplexity: float) -> Floats:
    """By row, shares that fall with the distance, with an entropy of log(perplexity): bisection of
    how fast they fall, for all rows at once."""
    squares = squares - squares.min(axis=1, keepdims=True)
    low, high = np.zeros(len(squares)), np.full(len(squares), np.inf)
    fall = 1.0 / np.maximum(np.median(squares, axis=1), TINY)
    for _ in range(BISECTIONS):
        weights = np.exp(-squares * fall[:, None])
        total = weights.sum(axis=1)
        finite = np.where(np.isfinite(squares), squares, 0.0)
        entropy = np.log(total) + fall * (finite * weights).sum(axis=1) / total
        is_wide = entropy > np.log(perplexity)
        low, high = np.where(is_wide, fall, low), np.where(is_wide, high, fall)
        fall = np.where(np.isinf(high), 2 * fall, (low + np.minimum(high, 1e30)) / 2)
    shares: Floats = (weights / total[:, None]).astype(np.float32)
    return shares


def _slope(likeness: Floats, places: Floats, exaggeration: float) -> Floats:
    """The gradient of the difference between the likeness of pairs and their nearness."""
    near = _squares(places, places)
    near += 1.0
    np.reciprocal(near, out=near)
    np.fill_diagonal(near, 0.0)
    force = near * (-1.0 / near.sum())
    force += likeness * np.float32(exaggeration)
    force *= near
    found: Floats = 4.0 * (force.sum(axis=1)[:, None] * places - force @ places)
    return found


def _reach(places: Floats) -> Floats:
    near = min(NEIGHBOURS, len(places) - 1)
    found: Floats = np.sqrt(np.partition(_squares(places, places), near, axis=1)[:, near])
    return found


def _maps(landmarks: Floats, places: Floats, squares: Floats) -> Floats:
    """By landmark, the rotation from the axes to the plane that fits its neighbours best, with the
    scale of the places around it."""
    near = min(NEIGHBOURS, len(landmarks) - 1)
    maps = np.zeros((len(landmarks), landmarks.shape[1], 2), dtype=np.float32)
    if near < 2:
        return maps
    around = np.argpartition(squares, near, axis=1)[:, : near + 1]
    before = landmarks[around] - landmarks[:, None, :]
    after = places[around] - places[:, None, :]
    left, _, right = np.linalg.svd(np.einsum("lnk,lnd->lkd", before, after), full_matrices=False)
    # The median: a neighbour that the layout tore away must not blow up the scale.
    lengths = np.median(np.linalg.norm(after, axis=2), axis=1)
    scale = lengths / np.maximum(np.median(np.linalg.norm(before, axis=2), axis=1), TINY)
    maps[:] = (left @ right) * (SPREAD * scale)[:, None, None]
    return maps


def _two(points: Floats) -> Floats:
    """The first two columns; zeros where there are fewer."""
    missing = np.zeros((len(points), max(0, 2 - points.shape[1])), dtype=np.float32)
    return np.concatenate([points[:, :2], missing], axis=1)
