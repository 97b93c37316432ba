"""The training of peeps_vlm: `python -m training.peeps` does all of it, stage by stage."""
