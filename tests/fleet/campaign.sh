# Runs a campaign of the fleet: reads its options, plays it, and prints its table and its result. Sourced by
# `tests/under_fire`, `tests/failovers` and `tests/soak` in the top folder of the checkout. They set `usage`, `seconds` (the
# default) and `all` (the stores to choose from). `tests/failovers` has its own `length`: `failovers` instead of `seconds`.
# shellcheck shell=bash disable=SC2154

script=tests/${0##*/} length=seconds

refuse() {
  printf '%s: %s\n' "$script" "$1" >&2
  exit 2
}

# Checks an option. Arguments: the kind of the value, the option, and the value, if there is one.
expect_number() {
  [ $# -gt 2 ] || refuse "$2 takes $1"
  # As many digits as fit wherever the number goes.
  [[ $3 =~ ^[0-9]{1,18}$ ]] || refuse "$2 takes $1, not \"$3\""
}

# Sets `seconds` or `failovers`, `seed` and `stores`.
read_options() {
  local known
  seed=1 stores=()
  while [ $# -gt 0 ]; do
    case $1 in
    "--$length") expect_number "a whole number of $length" "$@" && printf -v "$length" %s "$2" && shift ;;
    --seed) expect_number "a whole number" "$@" && seed=$2 && shift ;;
    -h | --help) printf '%s\n' "$usage" && exit ;;
    -*) refuse "there is no option \"$1\"; --help shows them" ;;
    *)
      known=$(printf ', %s' "${all[@]::${#all[@]}-1}")
      [[ $1 =~ ^[a-z]+$ && " ${all[*]} " == *" $1 "* ]] ||
        refuse "no store is called \"$1\"; there are ${known:2} and ${all[-1]}"
      stores+=("$1")
      ;;
    esac
    shift
  done
  [ ${#stores[@]} -gt 0 ] || stores=("${all[@]}")
}

# Plays the campaign and ends the script.
play() {
  local names together= columns store test tests=() result=0 unfinished=
  names=$(printf ', %s' "${stores[@]}")
  [ ${#stores[@]} -eq 1 ] || together=" each, at the same time"
  printf '%s: %s s%s, from seed %s; the table comes at the end\n' "${names:2}" "$seconds" "$together" "$seed"

  export SOLOIST_FIRE_SECONDS="$seconds" SOLOIST_FIRE_SEED="$seed"
  columns=${CARGO_TARGET_DIR:-target}/tmp/under-fire
  rm -rf "$columns"
  cargo build --quiet --all-features --example worker
  for store in "${stores[@]}"; do
    case $store in
    memory) test=the_store_in_memory ;;
    file) test=a_file_store ;;
    *) test=$store ;;
    esac
    tests+=("${test}_keeps_its_promises_under_fire")
  done
  cargo test --quiet --all-features --test fleet -- --test-threads="${#tests[@]}" "${tests[@]}" || result=$?
  if [ -f "$columns/table.md" ]; then cat "$columns/table.md"; fi

  # A store that played to the end has a column, also after a failure.
  for store in "${stores[@]}"; do
    [ -f "$columns/$store.json" ] || unfinished+=", $store"
  done
  printf '\n'
  if [ -n "$unfinished" ]; then
    printf 'seed %s: not played to the end: %s. Why is told above.\n' "$seed" "${unfinished:2}"
  elif [ "$result" -ne 0 ]; then
    printf 'seed %s: promises were broken. Each is told above, with its seed and the command that plays its round again.\n' "$seed"
  else
    printf 'seed %s: no promise was broken. What the rows mean is told in docs/guide/under_fire.md.\n' "$seed"
  fi
  exit "$result"
}
