"""Gradients across ranks: arrays in, their sums out, dense or compressed, run or simulated.

Nothing here knows of nets. A communicator moves arrays between ranks, an algorithm is a list of
rounds of messages, a compressor turns a gradient into a message, a bucket is where gradients lie,
and an exchange brings the four together while the rest of backward still runs.
"""
