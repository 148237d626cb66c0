"""The guide through IREE's GPU playbook: sanity, isolate, compare, reduce; each step is a program of its own."""
