"""Image variants that change or keep the person's region: black, blurred, without background, crops."""
