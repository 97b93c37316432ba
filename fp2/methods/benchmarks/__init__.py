"""Published benchmarks of bias in vision-language models: their items, their own scores, and ours beside them."""
