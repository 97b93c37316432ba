"""The permutation engine: from arrays of entries to statistics under permuted labels and in bootstrap resamples.

The modules, each built on those before it:

- `numeric`: array types, random streams, the memory budget;
- `entries`: the input, checked, and its cell means, one per (subject, group);
- `units`: the exchangeable units, their random relabellings, and permutation p-values;
- `sums`: counts, sums and sums of squares per group under many relabellings at once, by matrix products;
- `moments`: means, standard errors and the largest studentised contrast from these sums;
- `resampling`: the steps together, under permutation and bootstrap.
"""
