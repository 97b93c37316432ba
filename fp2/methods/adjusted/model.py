"""Adjusted disparities: group means with covariates held constant, and a permutation test of what is left.

The unit is the subject: y is the mean over its images, z its shares in the groups (a subject in two groups has two
halves), x its covariates. In the linear model E y = z mu + x beta with centred x, mu are the group means that subjects
with average covariates would have (standardisation; regression adjustment). Contrasts of mu are tested by the
permutation method of Freedman and Lane (1983): residuals of the model without groups are permuted across subjects and
the full model is fitted again. |T| takes heteroscedasticity-consistent variances (HC2; MacKinnon and White 1985), so
that the test holds approximately under unequal spread (DiCiccio and Romano 2017); without covariates and with disjoint
groups HC2 is Welch's variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fp2.extension import (
    CHUNK_BYTES,
    OK,
    TOO_FEW,
    UNINFORMATIVE,
    BoolArray,
    FloatArray,
    PanelSettings,
    permutation_p,
    stream,
)

NOT_SEPARABLE = "not_separable"
"""Status of groups that covariates determine: no difference between them can be told from the covariates' effect."""
_STREAM = 8
_RANK = 1e-8
_VARIANCE = 1e-12


@dataclass(frozen=True)
class Design:
    """What is known of S subjects.

    Attributes
    ----------
    shares : (S, G)
        Shares of each subject in the groups; a row sums to 1, or to 0 for a subject in no group.
    groups : tuple of str
    covariates : (S, p)
        Numbers, or shares of the levels of an attribute but one; complete.
    of_attribute : tuple of str
        The attribute of each covariate.
    additive : (G, q) or None
        The labels of each group in the main effects of an intersection, 0/1, for `interaction_panel`.
    """

    shares: FloatArray
    groups: tuple[str, ...]
    covariates: FloatArray
    of_attribute: tuple[str, ...]
    additive: FloatArray | None = None


@dataclass(frozen=True)
class AdjustedGroup:
    """One group: means over subjects and adjusted, the error of the latter, and Kish's effective number of subjects."""

    group: str
    n_subjects: int
    mean: float
    adjusted: float
    error: float
    effective_n: float


@dataclass(frozen=True)
class Balance:
    """One attribute: largest standardised mean difference of its covariates between two groups, before and after.

    After the adjustment means are equal by construction; `products` is the largest difference that is left in squares
    and products of covariates, which the linear model does not hold constant.
    """

    attribute: str
    before: float
    after: float
    products: float


@dataclass(frozen=True)
class Adjusted:
    """One outcome; None where a number does not exist.

    Attributes
    ----------
    status
        `ok`, `too_few_subjects`, `uninformative`, or `not_separable`.
    raw, gap
        max - min of the group means of these subjects, before and after adjustment.
    pair
        The two groups of the largest |T|, the one with the lower adjusted mean first.
    ci_low, ci_high
        Interval of the gap from the permuted maximum: `ci_low` is above 0 exactly if p <= alpha.
    max_t, p_value, permuted
        The test of equal adjusted means, and its permuted statistics (B,).
    """

    status: str
    n_subjects: int
    raw: float | None = None
    gap: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    pair: tuple[str, str] | None = None
    max_t: float | None = None
    p_value: float | None = None
    permuted: FloatArray | None = None
    groups: tuple[AdjustedGroup, ...] = ()
    balance: tuple[Balance, ...] = ()


@dataclass(frozen=True)
class Interaction:
    """The test of an interaction: the largest |T|, its p-value, and its permutations (B,)."""

    max_t: float
    p_value: float
    permuted: FloatArray


def adjusted_panel(values: FloatArray, design: Design, settings: PanelSettings) -> list[Adjusted]:
    """Return the adjusted comparison of every outcome, values (S, m) with NaN = missing.

    One permutation of the subjects serves all outcomes.

    Raises
    ------
    ValueError
        If shapes differ or a covariate is missing.
    """
    if len(values) != len(design.shares) or len(values) != len(design.covariates):
        raise ValueError("values, shares and covariates differ in length")
    if not np.isfinite(design.covariates).all():
        raise ValueError("covariates hold a missing value")
    return [_adjusted(column, design, settings) for column in values.T]


@dataclass(frozen=True)
class Fit:
    """The full model of one outcome: the subjects used (S,), the groups kept (G,), their shares and covariates.

    One unit of the model is `scale` of the outcome's own, from `centre`.
    """

    used: BoolArray
    kept: BoolArray
    shares: FloatArray
    x: FloatArray
    model: Model
    centre: float
    scale: float

    @property
    def n(self) -> int:
        """Number of subjects."""
        return len(self.x)

    @property
    def reduced(self) -> FloatArray:
        """The model without groups: intercept and covariates."""
        return np.concatenate([np.ones((self.n, 1)), self.x], axis=1)


def fit_model(y: FloatArray, design: Design, least: int) -> Fit | tuple[str, int]:
    """Return the fitted model, or the status and the number of subjects where there is none."""
    in_model = np.isfinite(y) & (design.shares.sum(axis=1) > 0)
    is_kept = (design.shares[in_model] > 0).sum(axis=0) >= least
    in_model &= design.shares[:, is_kept].sum(axis=1) > 0
    if not np.isfinite(y).any():
        return UNINFORMATIVE, 0
    if is_kept.sum() < 2:
        return TOO_FEW, int(in_model.sum())
    outcome = y[in_model]
    centre, scale = float(outcome.mean()), float(outcome.std())
    if scale <= 1e-12 * max(1.0, float(np.abs(outcome).max())):
        return UNINFORMATIVE, len(outcome)
    shares = design.shares[in_model][:, is_kept]
    shares = shares / shares.sum(axis=1, keepdims=True)
    x = _standardised(design.covariates[in_model])
    return Fit(in_model, is_kept, shares, x, Model((outcome - centre) / scale, shares, x), centre, scale)


def _adjusted(y: FloatArray, design: Design, settings: PanelSettings) -> Adjusted:
    from scipy.special import ndtri

    fit, alpha = fit_model(y, design, max(settings.min_subjects, 2)), settings.alpha
    if not isinstance(fit, Fit):
        return Adjusted(*fit)
    model, scale, raw = fit.model, fit.scale, plain_means(fit.shares, fit.model.y)
    pairs = list(combinations(range(len(raw)), 2))
    contrasts = np.array([difference(g, h, len(raw)) for g, h in pairs])
    if not model.estimable(contrasts):
        return Adjusted(NOT_SEPARABLE, fit.n, raw=float(np.ptp(raw)) * scale)
    t, permuted = model.test(contrasts, fit.reduced, fit.used, settings.n_permutations, stream(settings.seed, _STREAM))
    gaps, errors = np.abs(contrasts @ model.mean), model.errors(contrasts)
    q = float(np.quantile(permuted, 1 - alpha, method="higher"))
    names = [name for name, is_kept in zip(design.groups, fit.kept, strict=True) if is_kept]
    group_errors, weights = model.errors(np.eye(len(names))), model.weights
    groups = tuple(
        AdjustedGroup(
            name,
            int((fit.shares[:, g] > 0).sum()),
            float(raw[g]) * scale + fit.centre,
            float(model.mean[g]) * scale + fit.centre,
            float(group_errors[g]) * scale,
            float(1 / (weights[g] ** 2).sum()),
        )
        for g, name in enumerate(names)
    )
    low, high = sorted(pairs[int(np.argmax(model.contrast_t(contrasts)))], key=lambda g: model.mean[g])
    return Adjusted(
        OK,
        fit.n,
        raw=float(np.ptp(raw)) * scale,
        gap=float(np.ptp(model.mean)) * scale,
        ci_low=max(0.0, float((gaps - q * errors).max())) * scale,
        ci_high=float((gaps + float(ndtri(1 - alpha / 2)) * errors).max()) * scale,
        pair=(names[low], names[high]),
        max_t=t,
        p_value=permutation_p(t, permuted),
        permuted=permuted,
        groups=groups,
        balance=_balance(design.of_attribute, fit),
    )


def interaction_panel(values: FloatArray, design: Design, settings: PanelSettings) -> list[Interaction | None]:
    """Test for every outcome (S, m) that the adjusted means of intersections follow from main effects.

    The statistic is the largest |T| of the group means' residuals from the additive model (least squares, weighted by
    subjects); residuals of the additive model are permuted. None where there is no model, or main effects determine
    every combination that has enough subjects.
    """
    if design.additive is None:
        raise ValueError("the design has no main effects")
    out: list[Interaction | None] = []
    for column in values.T:
        out.append(None)
        if not isinstance(fit := fit_model(column, design, max(settings.min_subjects, 2)), Fit):
            continue
        additive = design.additive[fit.kept]
        weight = np.sqrt(fit.shares.sum(axis=0))
        beyond = np.eye(len(additive)) - additive @ np.linalg.pinv(additive * weight[:, None], rcond=_RANK) * weight
        contrasts = beyond[np.abs(beyond).max(axis=1) > 1e-6]
        if len(contrasts) and fit.model.estimable(contrasts):
            reduced = np.concatenate([fit.shares @ additive, fit.x], axis=1)
            rng = stream(settings.seed, _STREAM, 1)
            t, permuted = fit.model.test(contrasts, reduced, fit.used, settings.n_permutations, rng)
            out[-1] = Interaction(t, permutation_p(t, permuted), permuted)
    return out


class Model:
    """The full model of one outcome, and its tests."""

    def __init__(self, y: FloatArray, shares: FloatArray, x: FloatArray) -> None:
        self.y, self._full = y, np.concatenate([shares, x], axis=1)
        self._inverse = np.asarray(np.linalg.pinv(self._full, rcond=_RANK), dtype=np.float64)
        self.weights = self._inverse[: shares.shape[1]]
        self._leverage = np.clip(np.einsum("ij,ji->i", self._full, self._inverse), 0.0, 1.0)
        self.mean = self.weights @ y

    def estimable(self, contrasts: FloatArray) -> bool:
        """Whether no contrast of groups has a part that the data cannot tell from the covariates."""
        zeros = np.zeros((len(contrasts), self._full.shape[1] - len(self.weights)))
        rows = np.concatenate([contrasts, zeros], axis=1)
        return bool(np.abs(rows - rows @ self._inverse @ self._full).max() < 1e-6)

    def contrast_t(self, contrasts: FloatArray) -> FloatArray:
        """Return |T| of each contrast as observed."""
        return self.t(contrasts @ self.weights, self.y[:, None])[:, 0]

    def influence(self, contrast: FloatArray) -> FloatArray:
        """Return what each subject adds to a contrast, (S,): the squared sum is the squared HC2 standard error."""
        free = 1 - self._leverage
        scaled = np.where(free > 1e-6, 1 / np.sqrt(np.where(free > 1e-6, free, 1.0)), 0.0)
        added: FloatArray = (contrast @ self.weights) * self._residuals(self.y[:, None])[:, 0] * scaled
        return added

    def left_over(self, reduced: FloatArray) -> FloatArray:
        """Return the residuals of the reduced model, (S,)."""
        rest: FloatArray = self.y - reduced @ (np.linalg.pinv(reduced, rcond=_RANK) @ self.y)
        return rest

    def errors(self, contrasts: FloatArray) -> FloatArray:
        """Return the HC2 standard error of each contrast."""
        return np.sqrt(self._variance(contrasts @ self.weights, self._residuals(self.y[:, None]))[:, 0])

    def _residuals(self, y: FloatArray) -> FloatArray:
        rest: FloatArray = y - self._full @ (self._inverse @ y)
        return rest

    def _variance(self, weights: FloatArray, residuals: FloatArray) -> FloatArray:
        free = 1 - self._leverage
        scaled = np.where(free > 1e-6, weights**2 / np.where(free > 1e-6, free, 1.0), 0.0)
        variance: FloatArray = scaled @ residuals**2
        return variance

    def t(self, weights: FloatArray, y: FloatArray) -> FloatArray:
        """Return |T| of each contrast, (contrasts, b), given its weights (contrasts, S) for outcomes y (S, b)."""
        variance = self._variance(weights, self._residuals(y))
        value = np.abs(weights @ y)
        safe = np.where(variance > _VARIANCE, variance, 1.0)
        return np.where(variance > _VARIANCE, value / np.sqrt(safe), np.where(value < 1e-9, 0.0, np.inf))

    def test(
        self, contrasts: FloatArray, reduced: FloatArray, used: BoolArray, n: int, rng: np.random.Generator
    ) -> tuple[float, FloatArray]:
        """Return the largest |T| of the contrasts, and its `n` permutations of the reduced model's residuals.

        Every subject draws a random number, so that outcomes with other subjects permute their own in the same order.
        """
        weights = contrasts @ self.weights
        observed = float(self.t(weights, self.y[:, None]).max())
        rest = self.left_over(reduced)
        step = max(1, CHUNK_BYTES // (8 * (5 * len(used) + 4 * len(contrasts))))
        out = []
        for start in range(0, n, step):
            keys = rng.random((min(step, n - start), len(used)))[:, used]
            out.append(self.t(weights, rest[np.argsort(keys, axis=1)].T).max(axis=0))
        return observed, np.concatenate(out)


def _standardised(x: FloatArray) -> FloatArray:
    """Return covariates with mean 0 and SD 1; constant ones are left out (0)."""
    spread = x.std(axis=0)
    varies = spread > 1e-9
    return np.where(varies, (x - x.mean(axis=0)) / np.where(varies, spread, 1.0), 0.0)


def difference(g: int, h: int, groups: int) -> FloatArray:
    """Return the contrast of group g less group h, (groups,)."""
    contrast = np.zeros(groups)
    contrast[g], contrast[h] = 1.0, -1.0
    return contrast


def plain_means(shares: FloatArray, y: FloatArray) -> FloatArray:
    """Return the group means without covariates."""
    return np.asarray(np.linalg.lstsq(shares, y, rcond=None)[0], dtype=np.float64)


def _balance(of_attribute: Sequence[str], fit: Fit) -> tuple[Balance, ...]:
    """Return the balance of each attribute, under the weights that the model's adjusted means give to the subjects."""
    before = np.asarray(np.linalg.pinv(fit.shares), dtype=np.float64)
    after, x = fit.model.weights, fit.x

    def apart(weights: FloatArray, covariates: FloatArray) -> float:
        """Return the largest difference of two groups' weighted means of standardised covariates."""
        return float(np.ptp(weights @ covariates, axis=0).max()) if covariates.size else 0.0

    out = []
    for attribute in dict.fromkeys(of_attribute):
        of_its_own = x[:, [k for k, name in enumerate(of_attribute) if name == attribute]]
        products = _standardised(np.concatenate([of_its_own[:, [k]] * x for k in range(of_its_own.shape[1])], axis=1))
        out.append(
            Balance(
                attribute, *(apart(w, c) for w, c in ((before, of_its_own), (after, of_its_own), (after, products)))
            )
        )
    return tuple(out)
