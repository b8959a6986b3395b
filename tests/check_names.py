"""Refuses two types of one name in one namespace that stand in two headers.

The linker takes such a pair for one type and quietly mixes their members; no compiler sees both.
Usage: check_names.py SOURCE_FOLDER
"""

import collections
import pathlib
import re
import sys

NAMESPACE = re.compile(r"^namespace (divvy[\w:]*) \{", re.M)
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: : [^;{]*)? \{", re.M)


def types_of(text):
    """Types that are defined at the left margin, with the namespace that they stand in."""
    places = [(m.start(), m.group(1)) for m in NAMESPACE.finditer(text)]
    for found in TYPE.finditer(text):
        before = [name for at, name in places if at < found.start()]
        if before:
            yield before[-1], found.group(1)


def main():
    where = collections.defaultdict(set)
    for header in sorted(pathlib.Path(sys.argv[1]).rglob("*.h")):
        for name in types_of(header.read_text()):
            where[name].add(str(header))
    wrong = {name: files for name, files in where.items() if len(files) > 1}
    for (namespace, name), files in sorted(wrong.items()):
        print(f"{namespace}::{name} is defined in {' and '.join(sorted(files))}; rename one of them")
    if not where:
        print(f"no types found under {sys.argv[1]}")
    return 1 if wrong or not where else 0


sys.exit(main())
