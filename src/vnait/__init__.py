"""Vnait."""
