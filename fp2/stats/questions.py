"""The mean of several questions about one image, where not every question was answered."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.numeric import FloatArray


def question_adjusted_means(values: ArrayLike) -> FloatArray:
    """Return the mean over questions of each image, as if every question had been answered, (n,); NaN without answers.

    Questions have different means: where one group's answers to a question are refused more often, the mean of what was
    answered differs between groups that agree on every question. Each answer is therefore taken less the effect of its
    question, from the additive model of images and questions, by least squares; group labels play no part. The result
    is the plain mean where all questions were answered. Questions that no image connects are centred at their means.

    Parameters
    ----------
    values : (n, Q)
        One line per image, one column per question; NaN = missing.
    """
    y = np.asarray(values, dtype=np.float64)
    known = np.isfinite(y)
    count = known.sum(axis=1)
    if not (known == known[:, :1])[:, 1:].all():
        mask = known.astype(np.float64)
        effect = np.where(known, y, 0.0).sum(axis=0) / np.maximum(mask.sum(axis=0), 1.0)
        rest = np.where(known, y - effect, 0.0)
        share = mask / np.maximum(count, 1)[:, None]
        # normal equations of the questions' effects, the images' effects eliminated; of minimum norm
        system = np.diag(mask.sum(axis=0)) - mask.T @ share
        effect = effect + np.linalg.lstsq(system, rest.sum(axis=0) - share.T @ rest.sum(axis=1), rcond=1e-10)[0]
        answered = mask.any(axis=0)
        y = y - effect + effect[answered].mean()
    total = np.where(known, y, 0.0).sum(axis=1)
    mean: FloatArray = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return mean
