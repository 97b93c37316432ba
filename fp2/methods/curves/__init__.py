"""The specification curve: one claim under other choices of the analysis.

`choices` lists the specifications, `outcomes` makes their values, `curves` tests them, `supplement` is the block.
"""
