"""`python -m tsdr` is the `tsdr` command."""

from tsdr.cli import main

main()
