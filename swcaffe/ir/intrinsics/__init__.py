"""The primitives that programs are made of, one file each."""
