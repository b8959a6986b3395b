"""Refuses a promise in the specification that names a test which does not exist, or has the number
of another one.

Usage: check_specification.py SPECIFICATION BUILD_FOLDER
"""

import fnmatch
import re
import subprocess
import sys


def tests_of(build):
    listing = subprocess.run(["ctest", "-N"], cwd=build, capture_output=True, text=True, check=True)
    found = re.findall(r"^ *Test +#\d+: (\S+)", listing.stdout, re.M)
    return found


def named_tests(page):
    for line in open(page):
        cells = line.split("|")
        if len(cells) < 4:
            continue
        for name in re.findall(r"`([\w/.*]+)`", cells[-2]):
            if "." in name and not name.startswith(("tests/", "src/", "bench/", "docs/")):
                yield cells[1].strip(), name


def doubled_numbers(page):
    numbers = re.findall(r"^\| ([A-Z]+[0-9]+) \|", open(page).read(), re.M)
    return sorted({number for number in numbers if numbers.count(number) > 1})


def main():
    doubled = doubled_numbers(sys.argv[1])
    for number in doubled:
        print(f"several promises have the number {number}")
    tests = tests_of(sys.argv[2])
    named = list(named_tests(sys.argv[1]))
    missing = [
        (promise, name)
        for promise, name in named
        if not any(
            fnmatch.fnmatchcase(test, pattern)
            for test in tests
            for pattern in (name, name + "/*", "*/" + name, "*/" + name + "/*")
        )
    ]
    for promise, name in missing:
        print(f"promise {promise} names the test {name}, which does not exist")
    if not named:
        print("no test is named at all")
    return 1 if doubled or missing or not named else 0


sys.exit(main())
