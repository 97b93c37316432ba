"""The mean of several questions where not all were answered, against a regression with dummies."""

from __future__ import annotations

import numpy as np
import pytest

from fp2.scorers.outcomes import question_adjusted_means


def regression(y):
    """Image effect plus the mean question effect, from least squares on dummies."""
    n, q = y.shape
    line, question = np.nonzero(np.isfinite(y))
    design = np.concatenate([line[:, None] == np.arange(n), question[:, None] == np.arange(q)], axis=1).astype(float)
    fit = np.linalg.lstsq(design, y[line, question], rcond=None)[0]
    return np.where(np.isfinite(y).any(axis=1), fit[:n] + fit[n:].mean(), np.nan)


def test_means_equal_a_regression_on_images_and_questions():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(40, 4)) + np.array([0.0, 1.0, -2.0, 0.5])
    y[rng.random(y.shape) < 0.4] = np.nan
    y[3] = np.nan
    assert question_adjusted_means(y) == pytest.approx(regression(y), nan_ok=True)


def test_complete_answers_are_averaged_and_unconnected_questions_centred():
    y = np.random.default_rng(2).normal(size=(9, 3))
    assert (question_adjusted_means(y) == y.mean(axis=1)).all()
    apart = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 10.0], [np.nan, 14.0]])
    assert question_adjusted_means(apart) == pytest.approx([6.0, 8.0, 5.0, 9.0])


def test_a_refused_question_moves_no_image_that_agrees_with_the_others():
    y = np.array([[0.2, 0.6, 1.0]] * 6)
    y[0, 0] = y[1, 2] = y[2, 1] = np.nan
    assert question_adjusted_means(y) == pytest.approx([0.6] * 6)
