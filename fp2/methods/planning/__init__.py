"""`fp2 plan`: what a run would ask, and how many subjects find a gap."""
