"""Faults on purpose: what a run leaves behind when it is killed, starved, lied to or started twice.

    python -m benchmarks.torture                     # 100 kills, every fault, 10,000 hostile inputs (`make torture`)
    python -m benchmarks.torture --short             # a few of each
    python -m benchmarks.torture --only kills,disks --share 0.2    # parts, and a share of the attempts

Every attempt is a whole run in a forked process on coloured squares that the simulator answers, so that the true tables
are known. A fault is survived if no stored answer is lost or changed, at most the batch in flight is asked again, the
next run ends with the tables of an undisturbed run byte for byte, and the user reads one line and no stack trace. Exit
status 1 if one is not.

The short form of the kills is among the tests. Other parts take longer in theirs (`together` 11 s of processor time,
`models` over 30 s); docs/reliability.md names the unit tests that inject faults of the same kinds.
"""
