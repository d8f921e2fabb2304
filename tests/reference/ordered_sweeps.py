"""A sweep in waves of groups of eight states, entry by entry, on dense arrays."""

from __future__ import annotations

import itertools

import numpy as np


def ordered_sweep(Q, H, square, waves, coupled, own):
    """The new table. `own(latest, s)` is the entry (s, s), where latest(i, j) is the latest value of (i, j)."""
    size = len(H)
    new, ends = np.full_like(H, np.nan), [size - 8 * i for i in range(-(-size // 8))][::-1]
    for first, last in itertools.pairwise(waves):
        done = max(0, ends[first] - 8)
        for group in range(first, last):
            rows = np.arange(max(0, ends[group] - 8), ends[group])
            within = square * Q[np.ix_(rows, rows)]
            known = np.arange(size) < done
            X = square * Q[rows] @ np.where(known[:, None] & known, new, H)
            for t in range(rows[0]):
                d = X @ Q[t] - H[rows, t]
                d += Q[t, t] * np.diag(within) * d
                new[rows, t] = new[t, rows] = H[rows, t] + d
                X[:, t] += (within if coupled[group] else np.diag(np.diag(within))) @ d
            new[np.ix_(rows, rows)] = H[np.ix_(rows, rows)]
            latest = np.where(known[:, None] & known, new, H)
            latest[rows, : rows[-1] + 1] = new[rows, : rows[-1] + 1]
            X[:, rows] = square * (latest[rows] @ Q[rows].T).T
            for t in rows:
                for s in rows[rows >= t]:
                    entry = own(latest, s) if s == t else Q[t] @ X[s - rows[0]]
                    X[:, t] += within[:, s - rows[0]] * (entry - H[s, t])
                    new[s, t] = new[t, s] = latest[s, t] = latest[t, s] = entry
    return new
