"""Programs as C for athread, and a host runtime so that gcc can build and run the same files.

`cpe/` and `mpe/` hold what goes with generated programs, `host_runtime/` stands for the machine.
"""
