"""How an operator becomes a tensor program: templates, their knobs, and the parts they share."""
