#!/bin/sh
# Builds the documentation in the folder $DOCUMENTATION. `cargo test --doc` calls this instead of rustdoc, with the options
# for the examples in the documentation. So the documentation is built from the crates with which the tests are linked.
# `cargo doc` would first compile all crates again, in another mode.
set -eu
is_value=
for option; do
  shift
  case $is_value$option in
  yes*) is_value= ;;
  --test) ;;
  --test-args | --test-run-directory) is_value=yes ;;
  *) set -- "$@" "$option" ;;
  esac
done
exec rustdoc "$@" --out-dir "$DOCUMENTATION"
