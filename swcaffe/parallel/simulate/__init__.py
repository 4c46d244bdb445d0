"""What exchanging gradients costs on a network that is not here, from the rounds real ranks run."""
