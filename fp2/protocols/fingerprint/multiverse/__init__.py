"""The specification curve: one claim under every defensible choice of the analysis.

`choices` lists the specifications, `outcomes` makes their values, `curves` tests them, `supplement` is the block.
"""
