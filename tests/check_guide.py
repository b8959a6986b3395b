#!/usr/bin/env python3
"""Usage: check_guide.py GUIDE SOURCE

Fails unless the first C++ block of the guide is the part of the source between its two marks.
"""
import pathlib
import re
import sys


def main():
    guide = pathlib.Path(sys.argv[1]).read_text()
    source = pathlib.Path(sys.argv[2]).read_text()
    shown = re.search(r"```cpp\n(.*?)```", guide, re.S)
    marked = re.search(r"// \[guide\n(.*?)// guide\]", source, re.S)
    if not shown or not marked:
        sys.exit("the guide has no C++ block, or the source has no marks")
    if shown.group(1).strip() != marked.group(1).strip():
        sys.exit(f"{sys.argv[1]} does not show what {sys.argv[2]} compiles")


main()
