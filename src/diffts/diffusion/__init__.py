"""Diffusion priors: schedule, denoisers, posterior samplers, and the prior that joins them."""
