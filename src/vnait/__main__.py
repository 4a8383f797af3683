"""`python -m vnait` is the command line."""

from vnait.cli import main

if __name__ == "__main__":
    main()
