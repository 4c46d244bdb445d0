"""How a program is run: tile by tile on the host's vector units, or CPE by CPE in lockstep."""
