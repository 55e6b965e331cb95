"""Devices that steps compute on: their memory, streams and kernels."""
