#!/usr/bin/env python3
"""Usage: batches.py SIZE TOP FOLDER <TARGETS >FILE.cmake

Puts sources that one compiler run can read together into batches of at most SIZE, files in FOLDER that include them,
and says to CMake which they are. TARGETS has a line for each target: its name and its sources. Most of the time that a source takes goes into the headers, which a batch reads once. Sources may not be together
when both have a private name (in an unnamed namespace, or static) in common, when one
defines macros, or takes in a whole namespace or enumeration. What is
read here is text in the project's format: a declaration at file or namespace scope begins in the first column."""
import os
import re
import sys

OPENS_UNNAMED = re.compile(r'namespace \{')
CLOSES = re.compile(r'\}')
TYPE = re.compile(r'(?:template <.*> )?(?:struct|class|union|enum(?: class| struct)?) (?:alignas\(\S+\) )?(\w+)')
ALIAS = re.compile(r'using (\w+) =')
USING = re.compile(r'using (?!namespace)([\w:]*?\w+);')
TEST = re.compile(r'(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\((\w+),\s*(\w+)')
NAMED = re.compile(r'(~?\w+)\s*(?:\(|\[|=|\{|;|$)')
NO_DECLARATION = re.compile(r'[#}/\s]|namespace|extern "C" \{|template <[^>]*>$|static_assert|public:|private:|$')
COMMENT = re.compile(r'//.*$')


def private_names(text):
    """The names that a source keeps for itself, or None when it has to be compiled alone."""
    if re.search(r'^\s*#\s*(?:define|undef|pragma)\b', text, re.MULTILINE):
        return None
    if re.search(r'^(?:int main|extern "C" int LLVMFuzzer|using enum |using namespace (?!std::\w+_literals))', text, re.MULTILINE):
        return None
    names = set()
    unnamed = False
    for line in text.splitlines():
        if OPENS_UNNAMED.match(line):
            unnamed = True
            continue
        if CLOSES.match(line) and 'namespace' in line:
            unnamed = False
            continue
        if test := TEST.match(line):
            names.add('_'.join(test.groups()))
            continue
        if using := USING.match(line):
            names.add('using ' + using.group(1))
            continue
        if NO_DECLARATION.match(line) or not (unnamed or line.startswith('static ')):
            continue
        declaration = COMMENT.sub('', line).rstrip()
        if found := TYPE.match(declaration) or ALIAS.match(declaration):
            names.add(found.group(1))
            continue
        # The name stands before the first bracket that is not a template's.
        plain = declaration
        while (shorter := re.sub(r'<[^<>]*>', '', plain)) != plain:
            plain = shorter
        if found := NAMED.search(plain):
            names.add(found.group(1))
    return names


def together(one, other):
    if one is None or other is None:
        return False
    # `using a::name;` twice is fine, beside another thing of that name it is not.
    used = [{name.split('::')[-1].removeprefix('using '): name for name in names if name.startswith('using ')}
            for names in (one, other)]
    if any(used[1].get(short, name) != name for short, name in used[0].items()):
        return False
    own = [{name for name in names if not name.startswith('using ')} for names in (one, other)]
    return not (own[0] & own[1] or own[0] & used[1].keys() or own[1] & used[0].keys())


def batches(sources, size):
    made = []
    for source in sources:
        with open(source, encoding='utf-8') as file:
            names = private_names(file.read())
        for members, taken in made:
            if len(members) < size and all(together(names, each) for each in taken):
                members.append(source)
                taken.append(names)
                break
        else:
            made.append(([source], [names]))
    return [members for members, _ in made]


def write_if_new(path, text):
    if not os.path.exists(path) or open(path, encoding='utf-8').read() != text:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)


def main():
    size, top, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.makedirs(folder, exist_ok=True)
    read = []
    for line in sys.stdin:
        target, *sources = line.split()
        made = [batch for batch in batches(sources, size) if len(batch) > 1]
        if not made:
            continue
        print(f'target_include_directories({target} PRIVATE {top})')
        for number, batch in enumerate(made):
            # Named from the top: the same text in every clone, so that ccache finds it.
            together = f'{folder}/{target}_{number}.cc'
            write_if_new(together, ''.join(f'#include "{os.path.relpath(source, top)}"\n' for source in batch))
            print(f'target_sources({target} PRIVATE {together})')
            print(f'set_source_files_properties({" ".join(batch)}')
            print(f'  TARGET_DIRECTORY {target} PROPERTIES HEADER_FILE_ONLY ON)')
            read += batch
    # A name that is new may not go together with what it was with.
    print(f'set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS {" ".join(read)})')


if __name__ == '__main__':
    main()
