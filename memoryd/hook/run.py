"""The hook as a script, for `python -I -S run.py EVENT`: the quickest way to start it."""

import os
import sys

# `-I` leaves the folder of a script out of the path, `-S` the installed packages.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

if __name__ == "__main__":
    from memoryd.hook.call import main, process_age

    main(sys.argv[1:], process_age())
    os._exit(0)  # nothing is left to do, and taking the interpreter down takes time
