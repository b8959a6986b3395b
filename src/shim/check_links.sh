#!/bin/sh
# check_links.sh LIBRARY EXPORTS
#
# What the preloaded library asks of a program that it comes into: the C library, as old as 2.17, and
# nothing else; the names of the hook table, and no other; no code that runs before main.
set -eu
library=$1
exports=$2
bad=0
say() {
  echo "$1" >&2
  bad=1
}

for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
  case $needed in
    libc.so.6 | libdl.so.2 | libpthread.so.0) ;;
    *) say "needs $needed; only the C library may be needed" ;;
  esac
done

newest=$(readelf -V "$library" | grep -o 'GLIBC_[0-9.]*' | sort -u -t_ -k2V | tail -n 1)
first=$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -t_ -k2V | head -n 1)
if [ "$newest" != GLIBC_2.17 ] && [ "$first" = GLIBC_2.17 ]; then
  say "needs $newest; CentOS 7 and what else is old have GLIBC_2.17"
fi

nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort > "$exports.found"
LC_ALL=C sort "$exports" > "$exports.wanted"
if ! diff "$exports.wanted" "$exports.found"; then
  say "exports other names than the hook table has (< in the table, > exported)"
fi

constructors=$(nm "$library" | grep -c ' _GLOBAL__sub_I_\| __cxx_global_var_init' || true)
if [ "$constructors" != 0 ]; then
  nm -C "$library" | grep ' _GLOBAL__sub_I_\| __cxx_global_var_init' >&2
  say "has static constructors; make those globals constinit"
fi
exit $bad
